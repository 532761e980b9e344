"""What `doctor` looks at: facts about this machine and a profile, each with the next command where it is bad."""
