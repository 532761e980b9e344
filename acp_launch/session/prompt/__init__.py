"""What a prompt is made of besides its words."""
