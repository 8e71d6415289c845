// Command report writes docs/performance.md and its plot, with the other commands of this folder:
//
//	report [-quick] BUILT OUT.md
//
// BUILT is the folder with the guests and the commands that "make bench" builds.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/machine"
)

func main() {
	quick := flag.Bool("quick", false, "fewer and shorter turns")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: report [-quick] BUILT OUT.md")
		os.Exit(2)
	}
	if err := report(context.Background(), flag.Arg(0), flag.Arg(1), *quick); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// report runs the other commands and writes their tables to a file, with the plot next to it. built
// is the path of the guests' folder, and out is the path of the file.
func report(ctx context.Context, built, out string, quick bool) error {
	built, err := filepath.Abs(built)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	var w bytes.Buffer
	fmt.Fprintf(
		&w,
		"# Performance\n\n`make bench` writes this file. Compare the ratios within a table: times depend on the machine and its load.\n\n",
	)
	fmt.Fprintf(
		&w,
		"%s: %s, %d processors, load %s, %s/%s, %s",
		time.Now().Format("2 January 2006"),
		machine.Processor(),
		runtime.NumCPU(),
		machine.LoadAverage(),
		runtime.GOOS,
		runtime.GOARCH,
		runtime.Version(),
	)
	for _, path := range []string{
		"github.com/tetratelabs/wazero",
		"github.com/cloudwego/eino",
		"github.com/extism/go-sdk",
		"github.com/hashicorp/go-plugin",
	} {
		fmt.Fprintf(&w, ", %s %s", path[strings.LastIndexByte(path, '/')+1:], version(path))
	}
	w.WriteString(".\n")
	root := filepath.Dir(filepath.Dir(built))
	others, missing, err := otherLanguages(ctx, root, built)
	if err != nil {
		return err
	}
	if err := sizes(&w, built); err != nil {
		return err
	}
	for _, s := range sections(strings.TrimSuffix(out, ".md")+".svg", others, missing, quick) {
		fmt.Fprintln(os.Stderr, s.title)
		cmd := exec.Command(filepath.Join(built, s.command[0]), s.command[1:]...)
		cmd.Dir, cmd.Stderr = built, os.Stderr
		table, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(s.command, " "), err)
		}
		fmt.Fprintf(&w, "\n## %s\n\n", s.title)
		if s.before != "" {
			fmt.Fprintf(&w, "%s\n\n", s.before)
		}
		w.Write(table)
		w.WriteString(s.after)
	}
	if err := startUp(&w, root); err != nil {
		return err
	}
	w.WriteString(missed)
	return os.WriteFile(out, w.Bytes(), 0o644)
}

// missed lists the missed targets and their causes, which were found with profiles.
//
//go:embed missed.md
var missed string

// version returns the version of a module that the benchmarks' go.mod requires.
func version(path string) string {
	b, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", path).Output()
	if err != nil {
		return "of an unknown version"
	}
	return strings.TrimSpace(string(b))
}
