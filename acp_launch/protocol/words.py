"""
The words that ACP v1 itself says: its member names, the values it fixes, and which of its members are numbers.

They are the structure of a message, not anybody's text: whoever changes texts (the redactor) leaves these alone. Taken
from the schema, with what agents send of its unstable part; the tests compare.
"""

_NAMES = """
    _meta action additionalDirectories agentCapabilities agentInfo amount annotations args audience audio auth
    authMethods availableCommands availableModes blob boolean cachedReadTokens cachedWriteTokens category
    clientCapabilities clientInfo close code command compaction compactionId configId configOptions content cost
    currency currentModeId currentValue cursor cwd data default delete description elicitation elicitationId
    embeddedContext entries env error exitCode exitStatus form fs group headers hint http id image input inputTokens
    jsonrpc kind lastModified limit line list loadSession locations logout mcpCapabilities mcpServers message messageId
    method methodId mimeType mode modeId modes name newText nextCursor notices oldText optionId options outcome output
    outputByteLimit outputTokens params path plan planId priority prompt promptCapabilities protocolVersion rawInput
    rawOutput readTextFile requestId requestedSchema resource result resume session sessionCapabilities sessionId
    sessionUpdate sessions severity signal size sse status stopReason summary terminal terminalId text thoughtTokens
    title toolCall toolCallId totalTokens truncated type update updatedAt uri url usage used value version
    writeTextFile
    anyOf const enum format items maxItems maxLength maximum minItems minLength minimum oneOf pattern properties
    required
"""
NAMES = frozenset(_NAMES.split())

# Not those of JSON-RPC (id, code): in what agents tell, they are anybody's.
_NUMBERS = """
    amount cachedReadTokens cachedWriteTokens exitCode inputTokens limit line outputByteLimit outputTokens
    protocolVersion size thoughtTokens totalTokens used
"""
NUMBERS = frozenset(_NUMBERS.split())

_VALUES = {
    "action": "accept cancel decline",
    "audience": "assistant user",
    "category": "mode model model_config thought_level",
    "jsonrpc": "2.0",
    "kind": "allow_always allow_once delete edit execute fetch move other read reject_always reject_once search"
    " switch_mode think",
    "mimeType": "application/json application/octet-stream application/pdf audio/mpeg audio/wav image/gif image/jpeg"
    " image/png image/svg+xml image/webp text/html text/markdown text/plain",
    "mode": "form url",
    "outcome": "cancelled selected",
    "priority": "high low medium",
    "role": "assistant user",
    "sessionUpdate": "agent_message_chunk agent_thought_chunk available_commands_update compaction_summary_chunk"
    " compaction_update config_option_update current_mode_update notice plan session_info_update tool_call"
    " tool_call_update usage_update user_message_chunk",
    "severity": "error info warning",
    "status": "cancelled completed failed in_progress pending",
    "stopReason": "cancelled end_turn max_tokens max_turn_requests refusal",
    "type": "agent array audio boolean content diff env_var http image integer number object resource resource_link"
    " select sse string terminal text",
}
VALUES = {name: frozenset(words.split()) for name, words in _VALUES.items()}


def is_structure(name: str, value: object) -> bool:
    """Whether a member's value is nobody's text: a word of the protocol, or a number where one belongs."""
    if isinstance(value, str):
        return value in VALUES.get(name, ())
    return name in NUMBERS
