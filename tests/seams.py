"""
Where two capabilities meet: the test that holds them together, or why they cannot meet.

Look at the pairs of a capability before you build or change it: what one side writes, and the other believes. Name a
test only if it uses both. `tests/test_seams.py` checks that each pair has an entry, and that the tests exist.
"""

from typing import NamedTuple

CAPABILITIES = (
    "trust",  # a repository's profile or batch, accepted or not
    "secrets",  # references, and the stores
    "seat",  # how an agent reaches its servers: shims, and servers over HTTP
    "share",  # servers of `share: user`, and `share: launch`
    "host",  # a launch that outlives its terminal
    "serve",  # a profile as the agent of an editor
    "batch",  # items, their directory and trees
    "dask",  # items on the workers of a cluster
    "confined",  # the place of an agent: a box here,
    "container",  # a container,
    "ssh",  # or another machine
    "import",  # other tools' configuration, read and written
    "login",  # of an agent, and to remote servers
    "registry",  # agents that are published, installed and locked
    "api",  # a Python program
)


class Held(NamedTuple):
    """The pair meets, and this test, `tests/PATH::NAME`, holds it."""

    test: str


class CannotMeet(NamedTuple):
    """The pair has nothing in common, for this reason."""

    reason: str


IMPORT_STARTS_NOTHING = "An import reads and writes files before a launch, and starts neither agent nor server."

SEAMS: dict[tuple[str, str], Held | CannotMeet] = {
    ("trust", "secrets"): Held(
        "tests/redteam/test_hostile_repositories.py::test_a_secret_that_was_added_makes_it_inert"
    ),
    ("trust", "seat"): Held("tests/redteam/test_own_profiles.py::test_a_server_runs_nothing_that_lies_in_the_clone"),
    ("trust", "share"): Held("tests/seat/test_share_user.py::test_a_profile_that_is_not_trusted_joins_nothing"),
    ("trust", "host"): Held("tests/cli/test_reload.py::test_a_profile_that_is_not_trusted_is_not_taken"),
    ("trust", "serve"): Held(
        "tests/cli/test_serve.py::test_a_profile_that_is_not_trusted_answers_the_handshake_with_the_command_to_run"
    ),
    ("trust", "batch"): Held("tests/batch/test_trust.py::test_a_directory_that_a_repository_ships_starts_nothing"),
    ("trust", "dask"): Held(
        "tests/batch/test_cluster.py::test_trust_is_given_to_each_item_and_not_read_from_the_directory"
    ),
    ("trust", "confined"): Held(
        "tests/cli/test_confined_verbs.py::test_what_a_confined_agent_may_see_is_shown_before_it_is_trusted"
    ),
    ("trust", "container"): Held(
        "tests/cli/test_confined_verbs.py::test_where_an_agent_elsewhere_runs_is_shown_before_it_is_trusted"
    ),
    ("trust", "ssh"): Held(
        "tests/cli/test_confined_verbs.py::test_where_an_agent_elsewhere_runs_is_shown_before_it_is_trusted"
    ),
    ("trust", "import"): Held("tests/cli/test_interop.py::test_what_is_imported_is_not_trusted_with_it"),
    ("trust", "login"): Held("tests/cli/test_mcp_login.py::test_an_untrusted_profile_opens_no_page"),
    ("trust", "registry"): Held("tests/cli/test_agents.py::test_the_plan_and_the_trust_screen_name_the_version"),
    ("trust", "api"): Held(
        "tests/api/test_errors.py::test_a_profile_that_is_not_trusted_starts_nothing_and_says_what_it_would_run"
    ),
    ("secrets", "seat"): Held("tests/seat/test_seat_session.py::test_a_servers_secret_is_nowhere_but_in_its_server"),
    ("secrets", "share"): Held(
        "tests/seat/test_share_user.py::test_launches_with_the_same_secret_share_and_nothing_shows_it"
    ),
    ("secrets", "host"): Held("tests/cli/test_up.py::test_secrets_do_not_travel_to_fronts"),
    ("secrets", "serve"): Held(
        "tests/cli/test_serve_sessions.py::test_no_secret_of_the_profile_reaches_the_editor_or_stderr_in_any_message"
    ),
    ("secrets", "batch"): Held("tests/batch/test_masks.py::test_a_secret_is_in_no_file_of_an_attempt_but_its_patch"),
    ("secrets", "dask"): Held("tests/batch/test_whole.py::test_a_planted_secret_is_in_no_file_of_a_batch"),
    ("secrets", "confined"): Held(
        "tests/cli/test_confined.py::test_a_program_that_it_wrote_gets_no_secret_from_the_store"
    ),
    ("secrets", "container"): Held(
        "tests/cli/test_containers.py::test_its_server_answers_and_no_secret_of_it_is_in_the_container"
    ),
    ("secrets", "ssh"): Held("tests/cli/test_ssh.py::test_its_server_answers_and_no_secret_of_it_is_there"),
    ("secrets", "import"): Held(
        "tests/cli/test_interop.py::test_of_ten_literal_tokens_none_is_left_behind_and_all_are_in_the_store"
    ),
    ("secrets", "login"): Held("tests/cli/test_mcp_login.py::test_a_configured_client_uses_its_secret_and_its_port"),
    ("secrets", "registry"): Held(
        "tests/cli/test_agents.py::test_what_the_index_says_of_an_agent_is_text_and_no_reference"
    ),
    ("secrets", "api"): Held("tests/api/test_errors.py::test_no_secret_is_in_an_event_an_error_or_a_repr"),
    ("seat", "share"): Held("tests/seat/test_share.py::test_two_connections_have_one_process_and_each_gets_its_own"),
    ("seat", "host"): Held("tests/cli/test_up_kills.py::test_a_killed_server_comes_back_in_the_session_that_is_open"),
    ("seat", "serve"): Held(
        "tests/cli/test_serve.py::test_servers_of_the_profile_and_of_the_editor_run_behind_the_seat"
    ),
    ("seat", "batch"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("seat", "dask"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("seat", "confined"): Held(
        "tests/cli/test_confined.py::test_the_spy_sees_its_project_and_its_state_and_nothing_else"
    ),
    ("seat", "container"): Held(
        "tests/cli/test_containers.py::test_its_server_answers_and_no_secret_of_it_is_in_the_container"
    ),
    ("seat", "ssh"): Held("tests/cli/test_ssh.py::test_its_server_answers_and_no_secret_of_it_is_there"),
    ("seat", "import"): CannotMeet(IMPORT_STARTS_NOTHING),
    ("seat", "login"): Held(
        "tests/seat/test_logins.py::test_a_session_uses_the_login_and_nothing_else_sees_its_tokens"
    ),
    ("seat", "registry"): Held(
        "tests/cli/test_agents.py::test_a_confined_agent_of_the_registry_sees_its_program_and_its_seat_alone"
    ),
    ("seat", "api"): Held("tests/api/test_prompts.py::test_a_prompt_is_answered_in_typed_events"),
    ("share", "host"): Held("tests/cli/test_shared_verbs.py::test_shared_servers_in_use_are_ended_by_force_only"),
    ("share", "serve"): Held("tests/cli/test_shared_verbs.py::test_an_editor_shares_the_process_of_a_host"),
    ("share", "batch"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("share", "dask"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("share", "confined"): Held(
        "tests/cli/test_confined.py::test_it_shares_a_server_with_an_agent_that_is_not_confined"
    ),
    ("share", "container"): Held(
        "tests/cli/test_elsewhere_ends.py::test_it_shares_a_server_with_an_agent_that_is_here"
    ),
    ("share", "ssh"): Held("tests/cli/test_elsewhere_ends.py::test_it_shares_a_server_with_an_agent_that_is_here"),
    ("share", "import"): CannotMeet(
        "No other tool has such a key: an import brings none, and an export leaves it out."
    ),
    ("share", "login"): Held("tests/seat/test_logins.py::test_sessions_that_share_a_connection_have_one_login"),
    ("share", "registry"): CannotMeet("The registry names programs of agents; servers alone are shared, by their own."),
    ("share", "api"): Held("tests/api/test_meets.py::test_two_launches_share_a_server_of_the_user"),
    ("host", "serve"): Held("tests/cli/test_serve_host.py::test_an_editor_and_a_terminal_share_a_session"),
    ("host", "batch"): Held("tests/batch/test_item.py::test_an_item_starts_an_agent_of_its_own_beside_a_host"),
    ("host", "dask"): CannotMeet(
        "A worker only starts `batch item`, which looks for no host, whichever engine calls it."
    ),
    ("host", "confined"): Held("tests/cli/test_confined.py::test_a_host_confines_its_agent"),
    ("host", "container"): Held("tests/cli/test_containers.py::test_a_host_an_editor_and_a_loaded_session_have_it"),
    ("host", "ssh"): Held("tests/cli/test_ssh.py::test_a_host_an_editor_and_a_restarted_agent_have_it"),
    ("host", "import"): CannotMeet("An import writes a profile's file as an editor does; a host compares files alone."),
    ("host", "login"): Held("tests/cli/test_up.py::test_a_host_needs_the_login_before_it_is_up_and_keeps_its_tokens"),
    ("host", "registry"): Held("tests/cli/test_lock.py::test_a_locked_run_uses_no_host_that_started_another_version"),
    ("host", "api"): Held("tests/api/test_meets.py::test_a_private_host_is_shown_and_no_run_uses_it"),
    ("serve", "batch"): Held(
        "tests/batch/test_item.py::test_an_editor_does_not_enter_the_session_of_an_item_that_runs"
    ),
    ("serve", "dask"): CannotMeet(
        "An editor starts acp-launch where it is itself; a worker starts `batch item` alone."
    ),
    ("serve", "confined"): Held(
        "tests/cli/test_confined.py::test_a_served_agent_is_confined_to_what_it_was_started_with"
    ),
    ("serve", "container"): Held(
        "tests/cli/test_elsewhere.py::test_an_editor_has_its_own_directory_and_the_agent_the_one_there"
    ),
    ("serve", "ssh"): Held(
        "tests/cli/test_elsewhere.py::test_an_editor_has_its_own_directory_and_the_agent_the_one_there"
    ),
    ("serve", "import"): Held("tests/cli/test_interop.py::test_an_agent_that_is_acp_launch_itself_is_not_imported"),
    ("serve", "login"): Held("tests/cli/test_login.py::test_an_editor_runs_a_login_on_its_terminal_through_serve"),
    ("serve", "registry"): Held("tests/cli/test_agents.py::test_an_agent_of_the_registry_is_served_to_an_editor"),
    ("serve", "api"): CannotMeet(
        "An editor enters the hosts that are listed; a private one is not, and each holds its sessions by their locks."
    ),
    ("batch", "dask"): Held("tests/batch/test_cluster.py::test_every_attempt_is_carried_out_once_by_two_submitters"),
    ("batch", "confined"): Held(
        "tests/batch/test_trust.py"
        "::test_a_directory_of_an_earlier_batch_is_not_believed_once_a_confined_agent_could_write_it"
    ),
    ("batch", "container"): Held(
        "tests/cli/test_containers.py::test_an_item_of_a_batch_has_its_tree_and_its_check_there"
    ),
    ("batch", "ssh"): Held("tests/cli/test_ssh.py::test_items_of_a_batch_work_there_and_have_no_tree_here"),
    ("batch", "import"): CannotMeet(
        "Items import nothing; a profile that an import changes is one that was not frozen."
    ),
    ("batch", "login"): Held(
        "tests/batch/test_freeze.py::test_secrets_and_logins_of_items_that_run_elsewhere_are_only_named_here"
    ),
    ("batch", "registry"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("batch", "api"): CannotMeet(
        "An item is carried out by `batch item`; a program that prompts often launches agents by itself."
    ),
    ("dask", "confined"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("dask", "container"): Held("tests/cli/test_containers.py::test_items_that_are_deaf_or_killed_leave_no_container"),
    ("dask", "ssh"): CannotMeet(
        "A worker starts `batch item` alone, which calls ssh on its own host, as without Dask."
    ),
    ("dask", "import"): CannotMeet("A worker starts `batch item` alone, and no item imports another tool's file."),
    ("dask", "login"): Held(
        "tests/batch/test_freeze.py::test_secrets_and_logins_of_items_that_run_elsewhere_are_only_named_here"
    ),
    ("dask", "registry"): Held("tests/batch/test_whole.py::test_what_a_profile_uses_is_there_in_an_item"),
    ("dask", "api"): CannotMeet(
        "A worker starts `batch item` alone, which starts its agent as a run does, without a program."
    ),
    ("confined", "container"): Held("tests/plan/test_elsewhere.py::test_what_cannot_be_done_from_here_is_refused"),
    ("confined", "ssh"): Held("tests/plan/test_elsewhere.py::test_what_cannot_be_done_from_here_is_refused"),
    ("confined", "import"): Held(
        "tests/cli/test_interop.py::test_a_tools_file_that_leads_out_of_the_project_is_not_read"
    ),
    ("confined", "login"): Held(
        "tests/cli/test_confined_verbs.py::test_a_confined_agent_logs_in_inside_and_is_started_again"
    ),
    ("confined", "registry"): Held(
        "tests/cli/test_agents.py::test_a_confined_agent_of_the_registry_sees_its_program_and_its_seat_alone"
    ),
    ("confined", "api"): Held("tests/api/test_prompts.py::test_an_agent_of_a_command_line_may_be_confined"),
    ("container", "ssh"): Held("tests/plan/test_elsewhere.py::test_what_cannot_be_done_from_here_is_refused"),
    ("container", "import"): Held("tests/interop/test_writers.py::test_an_agent_that_leaves_its_place_is_told_of"),
    ("container", "login"): Held(
        "tests/cli/test_containers.py::test_a_login_has_a_terminal_there_and_leaves_no_container"
    ),
    ("container", "registry"): Held("tests/plan/test_elsewhere.py::test_what_cannot_be_done_from_here_is_refused"),
    ("container", "api"): CannotMeet(
        "A program's launch is a private host, which starts its agent by the code of every host."
    ),
    ("ssh", "import"): Held("tests/interop/test_writers.py::test_an_agent_that_leaves_its_place_is_told_of"),
    ("ssh", "login"): Held("tests/cli/test_ssh.py::test_a_login_that_needs_a_terminal_runs_there"),
    ("ssh", "registry"): Held("tests/plan/test_elsewhere.py::test_what_cannot_be_done_from_here_is_refused"),
    ("ssh", "api"): CannotMeet(
        "A program's launch is a private host, which starts its agent by the code of every host."
    ),
    ("import", "login"): Held(
        "tests/interop/test_writers.py"
        "::test_the_variables_of_a_remote_server_are_headers_elsewhere_and_what_only_we_do_is_said"
    ),
    ("import", "registry"): Held("tests/interop/test_readers.py::test_a_tools_file_becomes_these_entries_of_a_profile"),
    ("import", "api"): CannotMeet(IMPORT_STARTS_NOTHING),
    ("login", "registry"): Held("tests/cli/test_agents.py::test_a_login_starts_the_agent_that_is_installed"),
    ("login", "api"): Held("tests/api/test_questions.py::test_a_login_is_named_with_the_command_that_helps"),
    ("registry", "api"): Held("tests/api/test_meets.py::test_locked_refuses_what_the_command_line_refuses"),
}
