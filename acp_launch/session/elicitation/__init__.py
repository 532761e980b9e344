"""
Forms and links that the agent wants the user to fill in or follow (ACP v1 "Elicitation").

In come the params of `elicitation/create`; out comes the user's answer in `content`. Open `request` first.

    request   reads the params into a `Form` or a `Link`, and serves the request
    answer    the form as values; checks an answer, also against patterns in bounded time; reads what the user typed
"""
