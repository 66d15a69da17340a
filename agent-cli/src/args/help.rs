//! What stands at the end of the help texts.

pub(super) const EXAMPLES: &str = "\
Examples:
  agent-cli                                     interactive session in the current directory
  agent-cli run 'make the tests pass'           one task, then exit
  agent-cli exec -- 'make test 2>&1 | tail -5'  one command in the jail, no model
  agent-cli demo                                watch the whole loop; needs no key
  agent-cli --connect unix:///run/agentd/agentd.sock status

A model needs ANTHROPIC_API_KEY and MODEL_ID, from the environment or from .env in this directory.";

pub(super) const RUN_EXAMPLES: &str = "\
Exit code: 0 done, 1 API or other error, 2 usage or configuration, 3 turn limit, 6 denied,
7 refusal, 8 truncated, 130 interrupted, 143 terminated.

Examples:
  agent-cli run 'create hello.py that prints Hello, World!'
  agent-cli run --output-format stream-json --permissions deny 'which branch is this?'";

pub(super) const EXEC_EXAMPLES: &str = "\
Exit code: the command's; 124 timeout, 125 our own failure, 126 blocked, 127 not found,
128+N ended by signal N, 130 interrupted.

Examples:
  agent-cli exec -- 'grep -rn main src | wc -l'     one string is a bash script
  agent-cli exec -- grep -rn main src               several are a program and its arguments
  agent-cli exec --timeout 10m --file build.sh      a script from a file
  generate-script | agent-cli exec --json -         a script from standard input
  sort-me | agent-cli exec --stdin -- sort -u       standard input for the command
  agent-cli exec --pty -- python3                   on a terminal
  agent-cli exec --session s1 -- 'cd src; export A=1'   directory and exports stay for the next one
  agent-cli exec --session s1 --keep-output -- 'make -j8'   names how to read all of it again
  agent-cli exec --session s1 --background -- 'make serve'

A session needs an agentd that stays (agentd serve): a private one ends with the command.";

pub(super) const PS_EXAMPLES: &str = "\
Examples:
  agent-cli ps
  agent-cli ps --json | jq -r 'select(.state == \"running\").exec_id'";

pub(super) const LOGS_EXAMPLES: &str = "\
Both streams go to standard output, in the order in which they arrived.

Examples:
  agent-cli logs exec-0123456789abcdef
  agent-cli logs -f exec-0123456789abcdef
  agent-cli logs --from 5000000 exec-0123456789abcdef | head -50";

pub(super) const KILL_EXAMPLES: &str = "\
Without --signal: TERM, the command's grace, KILL, to everything that it started; returns when it has ended.
Exit code: 0 it was told or ended, 1 it had ended before, 125 our own failure.

Examples:
  agent-cli kill exec-0123456789abcdef
  agent-cli kill --signal HUP exec-0123456789abcdef";

pub(super) const WAIT_EXAMPLES: &str = "\
Exit code: as of agent-cli exec.

Examples:
  agent-cli wait exec-0123456789abcdef && echo it went well";
