// Command agentdojo replays AgentDojo's tasks and attacks without a model, through agents with
// different defences:
//
//	cd bench && go run ./agentdojo -traces FOLDER
//
// The folder has traces of AgentDojo's suites, one JSON file each: the tools, the calls of each
// task, and their results. For each pair of a user's task and an attack, a scripted model makes the
// user's calls, obeys the attack as soon as a result contains it, and continues with the user's
// calls. A person who is asked approves the user's calls and denies the attacker's.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agent-runner/agent-runner/host"
)

func main() {
	var o options
	flag.StringVar(&o.traces, "traces", "", "folder with the traces of the suites")
	flag.StringVar(&o.modules, "modules", "../build/wasm", "folder with the modules that make examples builds")
	flag.StringVar(&o.only, "only", "", "measure only defences whose name contains this")
	flag.BoolVar(&o.form.text, "text", false, "return results as AgentDojo's text instead of JSON")
	flag.BoolVar(&o.form.adaptive, "adaptive", false, "write the attacker's values as fields into the attacks, too")
	flag.BoolVar(&o.verbose, "v", false, "list the attacks that act and the tasks that are disturbed")
	flag.BoolVar(&o.time, "time", false, "measure the time that provenance adds to a call instead")
	flag.Parse()
	if (o.traces == "") != o.time || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: agentdojo -traces FOLDER [-text] [-adaptive] [-v], or agentdojo -time")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, &o); err != nil {
		fmt.Fprintln(os.Stderr, "agentdojo:", err)
		os.Exit(1)
	}
}

type options struct {
	traces, modules, only string
	verbose, time         bool
	form                  form
}

func run(ctx context.Context, w io.Writer, o *options) error {
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	l := &library{host: h, folder: o.modules, loaded: map[string]*host.Module{}}
	if o.time {
		return times(ctx, w, l)
	}
	suites, err := load(o.traces)
	if err != nil {
		return err
	}
	for _, s := range suites {
		fmt.Fprintf(w, "\n%s: %d tasks, %d pairs\n\n%s", s.Name, len(s.UserTasks), len(s.Pairs), head)
		var notes strings.Builder
		for _, d := range defences(ctx, l) {
			if !strings.Contains(d.name, o.only) {
				continue
			}
			sc, err := measure(ctx, h, s, d, o.form)
			if err != nil {
				return err
			}
			sc.write(w, d.name)
			fmt.Fprintf(&notes, "%s:\n  %s\n", d.name, strings.Join(sc.notes, "\n  "))
		}
		if o.verbose {
			fmt.Fprintf(w, "\n%s", notes.String())
		}
	}
	return nil
}
