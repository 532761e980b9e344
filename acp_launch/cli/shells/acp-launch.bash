# Completion of acp-launch for bash.
#
# Now, in this shell:
#     eval "$(acp-launch completion bash)"
# For every shell, a line for ~/.bashrc:
#     command -v acp-launch >/dev/null && eval "$(acp-launch completion bash)"
# Or, where the package bash-completion is installed, as a file that it loads by itself:
#     acp-launch completion bash > ~/.local/share/bash-completion/completions/acp-launch

_acp_launch() {
    local answer added line
    COMPREPLY=()
    # The one on PATH, whatever is typed: a repository's own ./acp-launch is not run by a press of a key.
    answer=$(command acp-launch __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null </dev/null) || return 0
    {
        IFS= read -r added || return 0
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done
    } <<<"$answer"
    case $added in
    files) _acp_launch_from_shell default -f "$2" ;;
    directories) _acp_launch_from_shell dirnames -d "$2" ;;
    esac
}

# readline completes paths itself when there is nothing else; bash 3.2 (macOS) cannot be told so.
_acp_launch_from_shell() {
    local line
    if type compopt >/dev/null 2>&1; then
        compopt -o "$1"
    else
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen "$2" -- "$3")
    fi
}

complete -F _acp_launch acp-launch
