package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
)

// NewThreads returns the "threads" command.
func NewThreads(e *cli.Env) *cobra.Command {
	return cli.Group(
		&cobra.Command{Use: "threads", Short: "List, create, fork, export and delete threads: conversations of runs"},
		threadsList(e),
		threadsShow(e),
		threadsCreate(e),
		threadsRename(e),
		threadsFork(e),
		threadsExport(e),
		threadsRetention(e),
		threadsDelete(e),
	)
}

func threadsList(e *cli.Env) *cobra.Command {
	var f client.ThreadFilter
	var limit ListLimit
	cmd := Command(e, &cobra.Command{
		Use:   "list",
		Short: "List threads, the newest first",
		Example: `  agent-runner threads list --agent clerk
  agent-runner threads list --metadata customer:42`,
	}, func(ctx context.Context, r *Session, _ []string) error {
		rows, err := limit.Max()
		if err != nil {
			return err
		}
		list, err := client.Collect(rows, func(p client.Page) ([]*api.Thread, string, error) { return r.Threads(ctx, f, p) })
		if err != nil {
			return err
		}
		return r.Print(list, func() string {
			rows := [][]string{{"THREAD", "AGENT", "MESSAGES", "RUN", "UPDATED", "TITLE"}}
			for _, h := range list {
				rows = append(
					rows,
					[]string{h.ID, h.Agent, fmt.Sprint(h.Messages), h.Run, cli.Since(h.Updated), cli.Short(h.Title, 60)},
				)
			}
			return Table("no threads", rows)
		})
	})
	cmd.Flags().StringVar(&f.Agent, "agent", "", "list only threads of the agent `NAME`")
	cmd.Flags().StringVar(&f.Subject, "subject", "", "list only threads of this end `USER`")
	cmd.Flags().StringVar(&f.Metadata, "metadata", "", "list only threads with this entry of metadata, as `NAME:VALUE`")
	limit.Add(cmd, 50)
	return cmd
}

func threadsShow(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{Use: "show THREAD", Short: "Show a thread and its messages"},
		func(ctx context.Context, r *Session, args []string) error {
			h, err := r.Thread(ctx, args[0])
			if err != nil {
				return err
			}
			messages, err := client.Collect(0, func(p client.Page) ([]api.ThreadMessage, string, error) {
				return r.ThreadMessages(ctx, h.ID, p)
			})
			if err != nil {
				return err
			}
			return r.Print(struct {
				*api.Thread
				Messages []api.ThreadMessage `json:"messages"`
			}{h, messages}, func() string { return threadText(h) + messagesText(messages) })
		})
}

// threadText formats a thread.
func threadText(h *api.Thread) string {
	var b strings.Builder
	fmt.Fprintf(&b, "thread %s%s: %s, %d bytes, updated %s\n", h.ID, cli.After(" of agent ", h.Agent),
		cli.Count(h.Messages, "message"), h.Bytes, cli.Since(h.Updated))
	for _, line := range [][2]string{
		{"title", h.Title}, {"subject", h.Subject}, {"forked from", h.Parent}, {"unfinished run", h.Run},
	} {
		if line[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", line[0], cli.OneLine(line[1]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.Metadata)) {
		fmt.Fprintf(&b, "%s: %s\n", cli.OneLine(name), cli.OneLine(h.Metadata[name]))
	}
	return b.String()
}

// messagesText formats the messages of a thread.
func messagesText(list []api.ThreadMessage) string {
	var b strings.Builder
	for i := range list {
		var m abi.Message
		if json.Unmarshal(list[i].Message, &m) != nil {
			continue
		}
		fmt.Fprintf(&b, "\n%s (%s):\n", m.Role, list[i].ID)
		if text := m.Content.String(); text != "" {
			fmt.Fprintln(&b, text)
		}
		for _, c := range m.ToolCalls {
			fmt.Fprintf(&b, "calls %s %s\n", c.Function.Name, c.Function.Arguments)
		}
	}
	return b.String()
}

// metadataFlag adds the flag --metadata, a list of entries as NAME=VALUE.
func metadataFlag(cmd *cobra.Command, to *map[string]string) {
	cmd.Flags().StringToStringVar(to, "metadata", nil, "an entry of metadata, as `NAME=VALUE`; repeatable")
}

func threadsCreate(e *cli.Env) *cobra.Command {
	var in api.CreateThread
	cmd := Command(e, &cobra.Command{
		Use:     "create",
		Short:   "Create a thread",
		Example: `  agent-runner runs start --thread $(agent-runner threads create --agent clerk) "Where is my order?"`,
	}, func(ctx context.Context, r *Session, _ []string) error {
		h, err := r.CreateThread(ctx, &in)
		if err != nil {
			return err
		}
		return r.Done(h, "%s", h.ID)
	})
	cmd.Flags().StringVar(&in.Agent, "agent", "", "the `AGENT` of runs that name none")
	cmd.Flags().StringVar(&in.Title, "title", "", "the `TITLE` (default: the first user message)")
	cmd.Flags().StringVar(&in.Subject, "subject", "", "the end `USER` to whom the thread belongs")
	cmd.Flags().StringVar(&in.Concurrency, "concurrency", "",
		"`reject`, queue or cancel, for a run that starts while another one is unfinished (default: reject)")
	metadataFlag(cmd, &in.Metadata)
	return cmd
}

func threadsRename(e *cli.Env) *cobra.Command {
	return Command(e, &cobra.Command{
		Use:   "rename THREAD [TITLE]",
		Short: "Set the title of a thread; without TITLE, to the first user message",
	}, func(ctx context.Context, r *Session, args []string) error {
		title := ""
		if len(args) == 2 {
			title = args[1]
		}
		h, err := r.UpdateThread(ctx, args[0], &api.ThreadUpdate{Title: &title})
		if err != nil {
			return err
		}
		return r.Done(h, "thread %s: %s", h.ID, cli.OneLine(h.Title))
	})
}

func threadsFork(e *cli.Env) *cobra.Command {
	var in api.ForkThread
	cmd := Command(e, &cobra.Command{
		Use:   "fork THREAD",
		Short: "Create a thread with copies of a thread's messages",
		Example: `  agent-runner threads fork thr_abc
  agent-runner threads fork thr_abc --message msg_5 --agent clerk@4`,
	}, func(ctx context.Context, r *Session, args []string) error {
		h, err := r.ForkThread(ctx, args[0], &in)
		if err != nil {
			return err
		}
		return r.Done(h, "%s", h.ID)
	})
	cmd.Flags().StringVar(&in.Message, "message", "", "copy up to the message with this `ID`, as listed by threads show")
	cmd.Flags().StringVar(&in.Run, "run", "", "copy the messages that the thread had at the end of this `RUN`")
	cmd.Flags().StringVar(&in.Agent, "agent", "", "the `AGENT` of the fork (default: that of the thread)")
	cmd.Flags().StringVar(&in.Title, "title", "", "the `TITLE` of the fork (default: that of the thread)")
	metadataFlag(cmd, &in.Metadata)
	return cmd
}

func threadsExport(e *cli.Env) *cobra.Command {
	var file string
	cmd := Command(e, &cobra.Command{
		Use:     "export THREAD",
		Short:   "Print a thread with its runs and messages as lines of JSON",
		Example: `  agent-runner threads export thr_abc --file thread.jsonl`,
	}, func(ctx context.Context, r *Session, args []string) error {
		if file == "" {
			return r.ExportThread(ctx, args[0], e.Out)
		}
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return cli.Usagef("--file: %w", err)
		}
		err = r.ExportThread(ctx, args[0], f)
		if closed := f.Close(); err == nil {
			err = closed
		}
		return err
	})
	cmd.Flags().StringVar(&file, "file", "", "write to this `FILE` instead of standard output")
	return cmd
}

func threadsRetention(e *cli.Env) *cobra.Command {
	var tenant string
	cmd := Command(e, &cobra.Command{
		Use:   "retention [DAYS]",
		Short: "Show or set after how many days threads are deleted; 0 keeps them",
	}, func(ctx context.Context, r *Session, args []string) error {
		kept, err := &api.Retention{}, error(nil)
		if len(args) == 0 {
			kept, err = r.Retention(ctx, tenant)
		} else {
			days, wrong := strconv.ParseInt(args[0], 10, 64)
			if wrong != nil || days < 0 {
				return cli.Usagef("the retention is %q; want a number of days, or 0", cli.Short(args[0], 60))
			}
			kept, err = r.SetRetention(ctx, tenant, &api.Retention{ThreadDays: days})
		}
		if err != nil {
			return err
		}
		return r.Print(kept, func() string {
			if kept.ThreadDays == 0 {
				return "threads are kept\n"
			}
			return fmt.Sprintf("threads are deleted after %s\n", cli.Count(kept.ThreadDays, "day"))
		})
	})
	return tenantFlag(cmd, &tenant)
}

func threadsDelete(e *cli.Env) *cobra.Command {
	var sure bool
	cmd := Command(e, &cobra.Command{
		Use:   "rm THREAD",
		Short: "Delete a thread with its messages and runs",
	}, func(ctx context.Context, r *Session, args []string) error {
		if !sure {
			return cli.Usagef("this permanently deletes the messages and runs of thread %s; confirm with --yes", args[0])
		}
		if err := r.DeleteThread(ctx, args[0]); err != nil {
			return err
		}
		return r.Done(map[string]string{"thread": args[0]}, "deleted thread %s", args[0])
	})
	cmd.Flags().BoolVar(&sure, "yes", false, "confirm the deletion")
	return cmd
}
