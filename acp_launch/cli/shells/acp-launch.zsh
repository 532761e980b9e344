#compdef acp-launch
# Completion of acp-launch for zsh.
#
# Now, in this shell:
#     eval "$(acp-launch completion zsh)"
# For every shell, a line for ~/.zshrc, after compinit:
#     (( $+commands[acp-launch] )) && eval "$(acp-launch completion zsh)"
# Or as a file in a directory of $fpath, which compinit finds by itself:
#     acp-launch completion zsh > ~/.zsh/completions/_acp-launch

_acp-launch() {
    local answer
    local -a lines
    # The one on PATH, whatever is typed: a repository's own ./acp-launch is not run by a press of a key.
    answer="$(command acp-launch __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)"
    lines=("${(@f)answer}")
    local added=$lines[1]
    shift lines
    (( $#lines )) && _describe -V 'acp-launch' lines
    [[ $added == nothing ]] && return $(( ! $#lines ))
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case $added in
    files) _files ;;
    directories) _path_files -/ ;;
    esac
}

if [[ $funcstack[1] == _acp-launch ]]; then
    _acp-launch "$@"
elif (( $+functions[compdef] )); then
    compdef _acp-launch acp-launch
else
    print -u2 'acp-launch: zsh completes nothing yet; put this before it: autoload -Uz compinit && compinit'
fi
