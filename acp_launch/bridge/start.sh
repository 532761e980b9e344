# Starts a program that lies beside it: `start.sh shim ...` starts shim.py, or shim.js where there is no python3.
# -B: the directory is not ours to leave bytecode in.
name=${0%/*}/$1
shift
if command -v python3 >/dev/null 2>&1; then
    exec python3 -B -I -S "$name.py" "$@"
elif command -v node >/dev/null 2>&1; then
    exec node "$name.js" "$@"
fi
echo "acp-launch: this image has neither python3 nor node, and acp-launch needs one of them" >&2
exit 127
