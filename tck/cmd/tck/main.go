// Command tck compares a program that implements the protocol of package tck's README with the golden
// cases:
//
//	tck [flags] PROGRAM [ARGUMENT …]
//
// It exits with 0 if cases passed and none failed, and with 1 if a case failed or none passed. It
// exits with 2 if an argument is wrong, no case matches -run, the modules cannot be built, a report
// cannot be written, or the command was interrupted. It also exits with 2 if the program does not
// start, does not greet, implements another version, lists an unknown capability, or does not exit
// with code 0 after the last case.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"

	"github.com/agent-runner/agent-runner/tck"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit codes.
const (
	exitPassed  = 0
	exitFailed  = 1
	exitTrouble = 2
)

// arguments holds the parsed command line.
type arguments struct {
	options     tck.Options
	json, junit string // paths of the files to write the report to; empty for none
	program     []string
}

// run runs the command, prints the report or the error, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitPassed
	}
	if err != nil {
		fmt.Fprintln(stderr, "tck:", err)
		return exitTrouble
	}
	report, err := check(ctx, a)
	if report != nil {
		err = errors.Join(err, report.WriteText(stdout), write(a, report))
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "tck:", err)
		return exitTrouble
	case report.Passed == 0:
		fmt.Fprintln(stderr, "tck: no case passed")
		return exitFailed
	case report.Failed > 0:
		return exitFailed
	}
	return exitPassed
}

func parse(args []string, stderr io.Writer) (*arguments, error) {
	a := &arguments{}
	flags := flag.NewFlagSet("tck", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(
			stderr,
			"usage: tck [flags] PROGRAM [ARGUMENT …]\n\nCompares a host with the golden cases. tck/README.md has the protocol.\n\n",
		)
		flags.PrintDefaults()
	}
	match := flags.String("run", "", "run only the cases whose names match this regular `expression`")
	flags.DurationVar(&a.options.Timeout, "timeout", 0, "time limit of a case (default 30s)")
	flags.StringVar(
		&a.options.Transport,
		"transport",
		"",
		"what the modules are built for: native (default), extism or typescript",
	)
	flags.StringVar(&a.options.Modules, "modules", "", "`folder` of built modules (default: the go command builds them)")
	flags.StringVar(&a.json, "json", "", "write the report as JSON to this `file`")
	flags.StringVar(&a.junit, "junit", "", "write the report for JUnit to this `file`")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	names, err := regexp.Compile(*match)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	a.options.Match = names.MatchString
	if a.program = flags.Args(); len(a.program) == 0 {
		return nil, errors.New("want a program: tck [flags] PROGRAM [ARGUMENT …]")
	}
	return a, nil
}

func check(ctx context.Context, a *arguments) (*tck.Report, error) {
	host, stop := tck.NewProgram(a.program[0], a.program[1:]...)
	report, err := tck.Check(ctx, host, &a.options)
	return report, errors.Join(err, stop())
}

// write writes the files of the report.
func write(a *arguments, report *tck.Report) error {
	var failed error
	if a.json != "" {
		b, err := json.MarshalIndent(report, "", "  ")
		failed = errors.Join(err, os.WriteFile(a.json, append(b, '\n'), 0o644))
	}
	if a.junit != "" {
		f, err := os.Create(a.junit)
		if err != nil {
			return errors.Join(failed, err)
		}
		failed = errors.Join(failed, report.WriteJUnit(f), f.Close())
	}
	return failed
}
