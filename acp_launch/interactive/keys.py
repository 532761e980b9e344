"""
The keys of an interactive session, besides those of every Emacs-like line editor.

    Enter                 send; with a completion chosen, take it; while a line is asked for, answer
    Alt-Enter, Ctrl-J     a new line
    Tab, Shift-Tab        complete
    Ctrl-C                clear what was typed; otherwise, and while a turn runs, interrupt
    Ctrl-D                leave, when nothing is typed; where a line is asked for, dismiss that
    Ctrl-L                begin at the top of the screen; what was there scrolls away
    Ctrl-Z                stop, until `fg`
    Escape                close the menu, dismiss a question
"""

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, has_completions, has_focus
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from acp_launch.interactive.asking import Asking


def everywhere(interrupt: Callable[[], None], stop: Callable[[], None], clear: Callable[[], None]) -> KeyBindings:
    """Whatever has the keys."""
    keys = KeyBindings()
    for key, action in (("c-c", interrupt), ("c-z", stop), ("c-l", clear)):
        keys.add(key)(_calling(action))
    return keys


def of_prompt(prompt: Buffer, submit: Callable[[], None], leave: Callable[[], None]) -> KeyBindings:
    """While a prompt is typed."""
    keys = KeyBindings()
    here = has_focus(prompt)
    is_chosen = Condition(
        lambda: prompt.complete_state is not None and prompt.complete_state.complete_index is not None
    )
    keys.add("enter", filter=here & ~is_chosen)(_calling(submit))
    keys.add("enter", filter=here & is_chosen)(lambda event: _take(prompt, submit))
    for new_line in (("escape", "enter"), ("c-j",)):
        keys.add(*new_line, filter=here)(lambda event: prompt.newline(copy_margin=False))
    keys.add("c-d", filter=here & Condition(lambda: not prompt.text))(_calling(leave))
    keys.add("tab", filter=here)(lambda event: _complete(prompt))
    keys.add("s-tab", filter=here)(lambda event: prompt.complete_previous())
    keys.add("escape", filter=here & has_completions)(lambda event: prompt.cancel_completion())
    return keys


def of_answer(answer: Buffer, asking: Asking, default: Callable[[], str]) -> KeyBindings:
    """While a line is asked for. Ctrl-D ends what is being filled in, as it would on a bare terminal."""
    keys = KeyBindings()
    here = has_focus(answer)
    is_open = Condition(lambda: asking.open is not None)  # between two lines of a form Enter says nothing

    def enter() -> None:
        text = answer.text.replace("\n", " ") or default()
        answer.reset()
        asking.answer(text)

    for key in ("enter", "c-j"):
        keys.add(key, filter=here & is_open)(_calling(enter))
        keys.add(key, filter=here & ~is_open)(lambda event: None)
    keys.add("escape", filter=here)(lambda event: asking.answer(None))
    keys.add("c-d", filter=here & Condition(lambda: not answer.text))(lambda event: asking.answer(None))
    return keys


def of_choice(asking: Asking, prompt: Buffer, leave: Callable[[], None]) -> KeyBindings:
    """While a key is asked for. Several that came in one piece were pasted, or typed while we were busy: no answer."""
    keys = KeyBindings()

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        if event.app.key_processor.input_queue:
            _typed(event, asking, prompt)
        elif asking.open and event.data.lower() in {choice.key for choice in asking.open.choices}:
            asking.answer(event.data.lower())

    keys.add(Keys.BracketedPaste)(lambda event: _typed(event, asking, prompt))
    keys.add("escape", eager=True)(lambda event: asking.answer(None))
    keys.add("c-d")(_calling(leave))
    return keys


def _typed(event: KeyPressEvent, asking: Asking, prompt: Buffer) -> None:
    if event.data.replace("\n", "").isprintable():
        prompt.insert_text(event.data)
    asking.shut()


def _calling(action: Callable[[], None]) -> Callable[[KeyPressEvent], None]:
    return lambda event: action()


def _take(prompt: Buffer, submit: Callable[[], None]) -> None:
    """Keep what was chosen; a command of ours is whole with it, and is carried out."""
    prompt.complete_state = None
    if prompt.text.startswith(":"):
        submit()


def _complete(prompt: Buffer) -> None:
    if state := prompt.complete_state:
        prompt.complete_next()
        if len(state.completions) == 1:  # it is taken: the next one would be what was typed
            prompt.complete_state = None
    else:
        prompt.start_completion(insert_common_part=True)
