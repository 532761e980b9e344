"""
What can be set in a session: its mode, its model, and whether it is verbose (ACP v1 "session config options").

The mode is real: `plan` changes nothing, `ask` asks before it does, `code` does not ask. The models are names, as there
is none. `modes` says the same as the option `mode`, for clients that know no config options.
"""

from typing import Any

from acp_launch.demo.wire import INVALID_PARAMS, Message, RpcError

MODES = {
    "ask": ("Ask", "Asks before it changes anything"),
    "code": ("Code", "Changes things without asking"),
    "plan": ("Plan", "Changes nothing"),
}
MODELS = {
    "Small": {"script-s": "Script S"},
    "Large": {"script-l": "Script L", "script-xl": "Script XL"},
}


class Options:
    """One session's; `with_booleans` as the client can show them."""

    def __init__(self, *, with_booleans: bool) -> None:
        self.mode = "ask"
        self.model = "script-s"
        self.verbose = False
        self._with_booleans = with_booleans

    def choose(self, option: str, value: object) -> None:
        """Raises RpcError (-32602) for an option or a value that there is not."""
        allowed = self._allowed().get(option)
        if allowed is None:
            raise RpcError(INVALID_PARAMS, f"no config option {option!r}; there are {', '.join(self._allowed())}")
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise RpcError(INVALID_PARAMS, f"{option} cannot be {value!r}; it is one of {_words(allowed)}")
        setattr(self, option, value)

    def listed(self) -> list[Message]:
        """The complete list, as every answer and update about it has to carry."""
        verbose = {
            "id": "verbose",
            "name": "Verbose",
            "description": "Ends every answer with the mode and the model",
            "type": "boolean",
            "currentValue": self.verbose,
        }
        return [self._mode(), self._model(), *([verbose] if self._with_booleans else [])]

    def modes(self) -> Message:
        available = [{"id": mode, "name": name, "description": about} for mode, (name, about) in MODES.items()]
        return {"currentModeId": self.mode, "availableModes": available}

    def _allowed(self) -> dict[str, list[Any]]:
        models = [model for group in MODELS.values() for model in group]
        return {"mode": list(MODES), "model": models, **({"verbose": [True, False]} if self._with_booleans else {})}

    def _mode(self) -> Message:
        options = [{"value": mode, "name": name, "description": about} for mode, (name, about) in MODES.items()]
        return {
            "id": "mode",
            "name": "Mode",
            "category": "mode",
            "type": "select",
            "currentValue": self.mode,
            "options": options,
        }

    def _model(self) -> Message:
        groups = [
            {
                "group": group.lower(),
                "name": group,
                "options": [{"value": model, "name": name} for model, name in models.items()],
            }
            for group, models in MODELS.items()
        ]
        return {
            "id": "model",
            "name": "Model",
            "category": "model",
            "type": "select",
            "currentValue": self.model,
            "options": groups,
        }


def _words(values: list[Any]) -> str:
    return ", ".join("true" if value is True else "false" if value is False else value for value in values)
