"""The script for @modelcontextprotocol/server-filesystem: every tool, on files below `root`."""

from collections.abc import Callable
from pathlib import Path

from tests.realservers.recorder import Json, Recorder

PNG = bytes.fromhex("89504e470d0a1a0a")
BIG = 10_000_000  # bytes


def furnish(root: Path) -> None:
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "deep.txt").write_text("deep\n")
    (root / "a.txt").write_text("one\ntwo\nthree ä\u2028\n")
    (root / "p.png").write_bytes(PNG)
    (root / "s.wav").write_bytes(b"RIFF")
    (root / "b.bin").write_bytes(bytes(range(256)))


def calls(root: Path) -> list[tuple[str, Json]]:
    file, new = str(root / "a.txt"), str(root / "new.txt")
    edits = [{"oldText": "written", "newText": "edited"}]
    return [
        ("list_allowed_directories", {}),
        ("read_file", {"path": file}),
        ("read_text_file", {"path": file, "head": 2}),
        ("read_text_file", {"path": file, "tail": 1}),
        ("read_text_file", {"path": file, "head": 1, "tail": 1}),
        ("read_text_file", {"path": "/etc/hostname"}),  # outside
        *(("read_media_file", {"path": str(root / name)}) for name in ("p.png", "s.wav", "b.bin")),
        ("read_multiple_files", {"paths": [file, str(root / "nowhere")]}),
        ("write_file", {"path": new, "content": "written 'ü' \\ \"\n"}),
        ("edit_file", {"path": new, "edits": edits, "dryRun": True}),
        ("edit_file", {"path": new, "edits": edits}),
        ("edit_file", {"path": new, "edits": edits}),  # it is not there any more
        ("create_directory", {"path": str(root / "x" / "y")}),
        ("move_file", {"source": new, "destination": str(root / "x" / "moved.txt")}),
        ("read_file", {"path": str(root / "x" / "moved.txt")}),
        ("list_directory", {"path": str(root)}),
        ("list_directory_with_sizes", {"path": str(root), "sortBy": "size"}),
        ("directory_tree", {"path": str(root), "excludePatterns": ["sub"]}),
        ("search_files", {"path": str(root), "pattern": "**/*.txt"}),
        ("get_file_info", {"path": str(root / "sub")}),
        ("no_such_tool", {}),
    ]


def everything(root: Path) -> Callable[[Recorder], None]:
    def script(recorder: Recorder) -> None:
        recorder.initialize()
        recorder.request("tools/list")
        for tool, arguments in calls(root):
            recorder.call(tool, arguments)
        recorder.call("write_file", {"path": str(root / "big"), "content": "b" * BIG})
        recorder.call("read_text_file", {"path": str(root / "big")})

    return script
