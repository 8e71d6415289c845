package modules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/probe"
)

// newCall returns the command that calls one hook of a module.
func newCall(e *cli.Env) *cobra.Command {
	var config, messages, input, output, cacheDir string
	var next, grants []string
	cmd := &cobra.Command{
		Use:   "call PATH HOOK",
		Short: "Call one hook of a module, without an agent",
		Long: `Calls one hook of a module and prints its answer, or nothing if the hook changes
nothing. The input is read from standard input or --input. Its fields run and entry are
optional. Message lists come from the input's items, or else from --messages.

Exit codes: 0 answered, 1 the hook failed or faulted, 2 bad input or module.`,
		Example: `  echo '{"call":{"id":"1","name":"delete","arguments":"{}"}}' | agent-runner module call policy.ts gate_tool
  agent-runner module call wrap.wasm wrap_model --messages chat.json \
     --next '{"response":{"message":{"role":"assistant","content":"hi"}}}' < /dev/null`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usagef("want a module and a hook: agent-runner module call PATH HOOK")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return cli.Usagef("-o is %q; want text or json", output)
			}
			o := &probe.Options{Hook: abi.Hook(args[1]), Config: json.RawMessage(config)}
			var err error
			if o.Grants, err = policy.ParseGrants(grants); err != nil {
				return cli.Usagef("--grant: %w", err)
			}
			if o.Input, err = callInput(e, input); err != nil {
				return err
			}
			if messages != "" {
				if o.Messages, err = cli.ReadMessages(messages); err != nil {
					return err
				}
			}
			for _, n := range next {
				o.Next = append(o.Next, json.RawMessage(n))
			}
			o.Event = func(ev abi.Event) { printProbeEvent(e, ev) }
			ctx, stop := cli.Interruptible(cmd.Context(), func() {})
			defer stop()
			m, closeBoth, err := loadModule(ctx, e, cmd, args[0], host.Options{CacheDir: cacheDir})
			if err != nil {
				return err
			}
			defer closeBoth()
			answer, err := probe.Call(ctx, m, o)
			return printProbe(e, output, answer, cli.BeforeRun(ctx, err))
		},
	}
	cmd.Flags().StringVar(&config, "config", "", "the module's configuration, as `JSON`")
	cmd.Flags().StringVar(&messages, "messages", "", "read the messages that the hook can request from `FILE`, as JSON")
	cmd.Flags().StringVar(&input, "input", "-", "read the hook's input from `FILE`, as JSON; - is standard input")
	cmd.Flags().
		StringArrayVar(&next, "next", nil, "a reply of next, as `JSON`: {\"response\": …}, {\"result\": …} or {\"error\": …}; repeatable")
	cmd.Flags().StringArrayVar(&grants, "grant", nil, "give the module a `GRANT`, as in agent.yaml; repeatable")
	moduleFlags(cmd, &output, &cacheDir)
	return cmd
}

// callInput reads the hook's input. It returns nil, which counts as {}, if standard
// input is a terminal.
func callInput(e *cli.Env, path string) (json.RawMessage, error) {
	var b []byte
	var err error
	switch {
	case path != "-":
		b, err = cli.ReadFile(path, cli.MaxText)
	case e.In == nil || cli.IsTerminal(e.In):
		return nil, nil
	default:
		b, err = io.ReadAll(io.LimitReader(e.In, cli.MaxText+1))
	}
	if err != nil {
		return nil, err
	}
	if len(b) > cli.MaxText {
		return nil, cli.Usagef("the input has more than %d bytes", cli.MaxText)
	}
	return bytes.TrimSpace(b), nil
}

// printProbeEvent prints a log line or custom event of a hook to standard error.
func printProbeEvent(e *cli.Env, ev abi.Event) {
	switch ev.Type {
	case abi.EventLog:
		fmt.Fprintf(e.Err, "%s %s\n", ev.Level, cli.Clean(cli.OneLine(ev.Text)))
	case abi.EventCustom:
		fmt.Fprintf(e.Err, "emits %s %s\n", cli.Clean(ev.Name), cli.Clean(string(ev.Data)))
	}
}

// printProbe prints the answer of a hook, or returns the error of the call.
func printProbe(e *cli.Env, output string, answer json.RawMessage, err error) error {
	var failed *abi.Error
	var fault *ending.FaultError
	var refused *module.ConfigError
	switch {
	case errors.As(err, &refused):
		return err
	case errors.As(err, &fault):
		return cli.Ended(cli.ExitFailed, fault)
	case errors.As(err, &failed):
		return cli.Ended(cli.ExitFailed, fmt.Errorf("the hook failed: %w (%s)", failed, failed.Code))
	case err != nil:
		return err
	case answer == nil && output == "json":
		answer = json.RawMessage("null")
	case answer == nil:
		_, err := fmt.Fprintln(e.Err, "no answer: the hook changes nothing")
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, answer, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.Out, strings.TrimSpace(b.String()))
	return err
}
