# Completion of acp-launch for fish.
#
# Now, in this shell:
#     acp-launch completion fish | source
# For every shell, as a file that fish loads by itself:
#     acp-launch completion fish > ~/.config/fish/completions/acp-launch.fish

function __acp_launch_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -e before[1]
    # The one on PATH, whatever is typed: a repository's own ./acp-launch is not run by a press of a key.
    set -l answer (command acp-launch __complete fish $before "$current" 2>/dev/null </dev/null)
    set -q answer[1]
    or return
    set -l added $answer[1]
    set -e answer[1]
    set -q answer[1]
    and printf '%s\n' $answer
    # In --file=PATH the path is what comes after the mark, and a quote may have been begun before it.
    set -l lead (string match -r -- '^--[^=]+=' "$current"; or echo)
    set -l path (string replace -r -- '^(--[^=]+=)?["\']?' '' "$current" | string unescape)
    switch $added
        case files
            string replace -r -- '^' "$lead" (__fish_complete_path "$path")
        case directories
            string replace -r -- '^' "$lead" (__fish_complete_directories "$path" '')
    end
end

complete -c acp-launch -f -k -a '(__acp_launch_complete)'
