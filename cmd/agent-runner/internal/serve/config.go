package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
)

// maxConfig is the maximum size of a configuration file, in bytes.
const maxConfig = 1 << 20

// readConfig sets the flags that a YAML file names and that are not on the command line. The file's
// keys are the names of flags without dashes; a flag that can be repeated has a list.
func readConfig(cmd *cobra.Command, path string) error {
	b, err := cli.ReadFile(path, maxConfig)
	if err != nil {
		return cli.Usagef("--config: %w", err)
	}
	var values map[string]any
	if err := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict()).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return cli.Usagef("--config: %s: %w", path, err)
	}
	flags := cmd.LocalFlags()
	for name, value := range values {
		f := flags.Lookup(name)
		if f == nil || !configurable(f) {
			return cli.Usagef("--config: %s: unknown key %q%s", path, name, cli.Among(name, names(flags)))
		}
		if f.Changed {
			continue // the command line takes precedence
		}
		if err := setFlag(flags, f, value); err != nil {
			return cli.Usagef("--config: %s: %s: %w", path, name, err)
		}
	}
	return nil
}

// setFlag sets a flag to a value of a file. A list sets the flag once for each element.
func setFlag(flags *pflag.FlagSet, f *pflag.Flag, value any) error {
	list, ok := value.([]any)
	if _, repeats := f.Value.(pflag.SliceValue); ok && !repeats {
		return errors.New("want one value, not a list")
	}
	if !ok {
		list = []any{value}
	}
	for _, v := range list {
		switch v.(type) {
		case string, bool, int, int64, uint64, float64:
		default:
			return errors.New("want a text, a number, true or false")
		}
		if err := flags.Set(f.Name, fmt.Sprint(v)); err != nil {
			return err
		}
	}
	return nil
}

// configurable reports whether a file can set a flag.
func configurable(f *pflag.Flag) bool { return f.Name != "config" && f.Name != "help" }

// names returns the names of the flags that a file can set.
func names(flags *pflag.FlagSet) (out []string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if configurable(f) {
			out = append(out, f.Name)
		}
	})
	return out
}
