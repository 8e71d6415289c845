#!/bin/sh
# Runs the agents of this folder on their recorded conversations, and answers what
# they ask a person. Called by "make agents", which builds what they need.
set -eu
runner=build/agent-runner
examples=examples/agents
work=build/agents

# run AGENT [ANSWER...]: runs it, and where it waits goes on with the answers.
run() {
	agent=$1
	shift
	printf '\n== %s: %s\n\n' "$agent" "$(cat "$examples/$agent/prompt.txt")"
	status=0
	$runner run -f "$examples/$agent/agent.yaml" --replay "$examples/$agent/conversation.json" \
		--paused "$work/$agent.json" - <"$examples/$agent/prompt.txt" || status=$?
	if [ $status = 4 ] && [ $# -gt 0 ]; then
		printf '\n== a person answers: %s\n\n' "$*"
		for answer in "$@"; do
			shift
			set -- "$@" --answer "$answer"
		done
		$runner run -f "$examples/$agent/agent.yaml" --replay "$examples/$agent/conversation.json" \
			--resume "$work/$agent.json" "$@" </dev/null
	elif [ $status != 0 ]; then
		exit $status
	fi
}

run support 'int_23={"decision":"deny","message":"This order is not yours to give back."}'

run inbox 'int_6={"decision":"deny","message":"I did not ask for this."}' int_7=deny

rm -rf "$work/project"
cp -r "$examples/coding/project" "$work/project"
run coding int_23=approve int_24=approve
diff -ru "$examples/coding/project" "$work/project" || true

run research
