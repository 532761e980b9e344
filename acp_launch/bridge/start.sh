# Starts the program of its own name that lies beside it: shim.sh starts shim.py, or shim.js without a python3.
# -B: the directory is not ours to leave bytecode in.
if command -v python3 >/dev/null 2>&1; then
    exec python3 -B -I -S "${0%.sh}.py" "$@"
elif command -v node >/dev/null 2>&1; then
    exec node "${0%.sh}.js" "$@"
fi
echo "acp-launch: this image has neither python3 nor node, and acp-launch needs one of them" >&2
exit 127
