package tck

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/internal/golden"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// A Host runs agents with middlewares. The kit compares its behavior with the cases. [NewProgram]
// returns a host that runs in another program.
type Host = wire.Host

// Options select the cases and how they are run.
type Options struct {
	// Transport selects the build of the cases' modules. It is "native" for WebAssembly that exports
	// the hooks of package abi, "extism" for the same modules as Extism plug-ins, or "typescript" for
	// scripts. With "typescript", cases without scripts are skipped. The default is "native".
	Transport string
	// Modules is the folder of built modules. By default the kit builds them with the go command,
	// once for each version of their sources, in agent-runner/tck of the user's cache folder.
	Modules string
	// Timeout is the time limit of a case. The default is 30 seconds.
	Timeout time.Duration
	// Match, if not nil, selects cases by their names. The others are not in the report.
	Match func(name string) bool
	// Update, if not empty, is the folder of the cases' files. Where the host differs from a case, the
	// kit replaces the expectations in the case's file with the actual results, and the case passes.
	Update string
	// Parallel lets [Run] run cases concurrently. The host must be safe for concurrent use.
	Parallel bool
}

// Run runs each case as a subtest of t with the case's name. It skips a case that the host does
// not support.
func Run(t *testing.T, h Host, o *Options) {
	t.Helper()
	k, err := newKit(t.Context(), h, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range k.cases {
		t.Run(c.Name, func(t *testing.T) {
			if k.options.Parallel {
				t.Parallel()
			}
			switch r := k.run(t.Context(), c); r.Status {
			case skipped:
				t.Skip(r.Reason)
			case failed:
				t.Fatal(r.text())
			}
		})
	}
}

// Check runs the cases in order. It returns an error if it cannot start: for example, because the
// host does not answer or the modules cannot be built. If ctx is done, Check returns its error
// with a report of the cases that have run.
func Check(ctx context.Context, h Host, o *Options) (*Report, error) {
	k, err := newKit(ctx, h, o)
	if err != nil {
		return nil, err
	}
	report := &Report{Host: k.hello.Host, Transport: k.options.Transport, Results: []Result{}}
	for _, c := range k.cases {
		r := k.run(ctx, c)
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		report.add(r)
	}
	return report, nil
}

// A kit runs cases with a host.
type kit struct {
	host    Host
	hello   *wire.Hello
	options Options
	folder  string // folder of the built modules
	cases   []*golden.Case
}

// newKit selects the cases, builds the modules and greets the host. It fails if the options are
// invalid or match no case, if the modules cannot be built, or if the host's greeting is invalid.
func newKit(ctx context.Context, h Host, o *Options) (*kit, error) {
	k := &kit{host: h}
	if o != nil {
		k.options = *o
	}
	switch k.options.Transport {
	case "":
		k.options.Transport = native
	case native, extism, typeScript:
	default:
		return nil, fmt.Errorf("transport %q: want %s, %s or %s", k.options.Transport, native, extism, typeScript)
	}
	if k.options.Timeout == 0 {
		k.options.Timeout = 30 * time.Second
	}
	cases, err := loadCases()
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		if k.options.Match == nil || k.options.Match(c.Name) {
			k.cases = append(k.cases, c)
		}
	}
	if len(k.cases) == 0 {
		return nil, errors.New("no case has such a name")
	}
	if k.options.Modules == "" {
		k.folder, err = build(ctx, cases, k.options.Transport)
	} else {
		k.folder, err = filepath.Abs(k.options.Modules)
	}
	if err != nil {
		return nil, err
	}
	helloCtx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	if k.hello, err = h.Hello(helloCtx); err != nil {
		return nil, fmt.Errorf("greet the host: %w", err)
	}
	k.hello.Host = cut(k.hello.Host)
	if err := checkProtocol(k.hello); err != nil {
		return nil, err
	}
	return k, checkCapabilities(k.hello.Capabilities, cases)
}

// checkProtocol checks that a host speaks the kit's version of the protocol.
func checkProtocol(h *wire.Hello) error {
	if h.Protocol != wire.Protocol {
		return fmt.Errorf("the host speaks version %d of the protocol, the kit version %d", h.Protocol, wire.Protocol)
	}
	return nil
}

// run runs one case, unless it must be skipped, and returns the result.
func (k *kit) run(ctx context.Context, c *golden.Case) Result {
	result := Result{Name: c.Name, About: c.About}
	result.Missing = missing(needs(c.Request(), k.options.Transport), k.hello.Capabilities)
	switch {
	case k.options.Transport == typeScript && !c.InTypeScript():
		result.Status, result.Missing, result.Reason = skipped, nil, "the case has no modules in TypeScript"
		return result
	case result.Missing != nil:
		result.Status, result.Reason = skipped, "the host lacks "+strings.Join(result.Missing, ", ")
		return result
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, k.options.Timeout)
	defer cancel()
	outcome, differences, err := k.compare(ctx, c)
	result.TimeMS = time.Since(began).Milliseconds()
	switch {
	case err != nil:
		result.Status, result.Reason = failed, cut(err.Error())
	case outcome.Skipped != "":
		result.Status, result.Reason = skipped, cut(outcome.Skipped)
	case len(differences) > 0:
		result.Status = failed
		for _, d := range differences {
			result.Differences = append(result.Differences, Difference{d.Part, d.Want, cut(d.Got)})
		}
	default:
		result.Status = passed
	}
	return result
}

// compare runs a case with the host and compares the outcome, unless the host skipped the case.
// With Options.Update, it writes the actual results to the case's file if they differ, and
// returns no differences.
func (k *kit) compare(ctx context.Context, c *golden.Case) (*wire.Outcome, []golden.Difference, error) {
	r := c.Request()
	if err := resolve(r, k.folder, k.options.Transport); err != nil {
		return nil, nil, err
	}
	outcome, err := k.host.Run(ctx, r)
	if err != nil || outcome.Skipped != "" {
		return outcome, nil, err
	}
	differences, err := c.Compare(outcome, missing([]string{textsCapability}, k.hello.Capabilities) == nil)
	if err != nil || len(differences) == 0 || k.options.Update == "" {
		return outcome, differences, err
	}
	text, err := c.Update(outcome)
	if err != nil {
		return nil, nil, err
	}
	return outcome, nil, os.WriteFile(filepath.Join(k.options.Update, c.Name+".txtar"), text, 0o644)
}

// cut truncates text from a host to 64 KiB, since a report can contain text for each case.
func cut(s string) string {
	const limit = 64 << 10
	if len(s) <= limit {
		return s
	}
	return truncate.Text(s, limit) + "…"
}
