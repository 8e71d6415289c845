package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// conversation returns the initial messages of the run: the messages of --messages, then the
// prompt. It fails if there are no messages.
func (c *runCommand) conversation(ctx context.Context, args []string) ([]abi.Message, error) {
	var messages []abi.Message
	if c.messages != "" {
		var err error
		if messages, err = cli.ReadMessages(c.messages); err != nil {
			return nil, err
		}
	}
	prompt, err := c.prompt(ctx, args)
	switch {
	case err != nil:
		return nil, err
	case prompt == "" && len(args) > 0:
		return nil, cli.Usagef("the prompt is empty")
	case prompt == "" && len(messages) == 0:
		return nil, cli.Usagef("no prompt: pass one in quotes, or - to read it from standard input")
	}
	if prompt != "" {
		messages = append(messages, abi.User(prompt))
	}
	return messages, nil
}

// prompt returns the prompt in args, or "" if there is none. If it is "-", prompt reads it from
// standard input.
func (c *runCommand) prompt(ctx context.Context, args []string) (string, error) {
	if len(args) == 0 {
		return "", nil
	}
	prompt := args[0]
	if prompt == "-" {
		var err error
		if prompt, err = c.readPrompt(ctx); err != nil {
			return "", err
		}
	}
	if !utf8.ValidString(prompt) {
		return "", cli.Usagef("the prompt is not valid UTF-8")
	}
	return prompt, nil
}

// readPrompt reads the prompt from standard input until EOF or until ctx is done.
func (c *runCommand) readPrompt(ctx context.Context) (string, error) {
	if c.verbose {
		c.screen.Note(cli.Faint, "reading the prompt from standard input")
	}
	type read struct {
		b   []byte
		err error
	}
	done := make(chan read, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(c.env.In, cli.MaxText+1))
		done <- read{b, err}
	}()
	select {
	case r := <-done:
		switch {
		case r.err != nil:
			return "", fmt.Errorf("read the prompt from standard input: %w", r.err)
		case len(r.b) > cli.MaxText:
			return "", cli.Usagef("the prompt has more than %d bytes", cli.MaxText)
		}
		return strings.TrimRight(string(r.b), "\r\n"), nil
	case <-ctx.Done():
		return "", cli.BeforeRun(ctx, ctx.Err())
	}
}
