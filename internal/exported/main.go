// Command exported counts the exported identifiers of the public Go packages outside the SDKs:
// functions, types, constants, variables, and methods of exported types. An alias has the methods
// of the type that it names, and a struct those of what it embeds. Fields and the methods of
// interfaces do not count. It compares the numbers with the table in docs/stability.md.
//
//	go run ./internal/exported [-update] [-list]
//
// A package may have fewer identifiers than the table says, but then its number must be lowered.
// -update lowers the numbers, and -list prints the identifiers. To publish more, change the table by
// hand, and give the reason in the commit.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The marks around the table.
const (
	begin = "<!-- exported: begin -->\n"
	end   = "<!-- exported: end -->\n"
)

// clientPackages are the client of the HTTP API and its types. They grow with the operations of the
// API, so that their sum is separate.
var clientPackages = []string{"host/api", "host/client"}

func main() {
	update := flag.Bool("update", false, "lower the numbers of the table")
	list := flag.Bool("list", false, "print the identifiers")
	flag.Parse()
	if err := run("docs/stability.md", *update, *list); err != nil {
		fmt.Fprintln(os.Stderr, "exported:", err)
		os.Exit(1)
	}
}

func run(doc string, update, list bool) error {
	names, err := collect(".", "adapters/eino")
	if err != nil {
		return err
	}
	found := map[string]int{}
	for _, pkg := range slices.Sorted(maps.Keys(names)) {
		found[pkg] = len(names[pkg])
		for _, name := range names[pkg] {
			if list {
				fmt.Println(pkg, name)
			}
		}
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	old, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no marks around the table", doc)
	}
	if err := compare(parse(old), found, update); err != nil || !update {
		return err
	}
	return os.WriteFile(doc, []byte(before+begin+table(found)+end+after), 0o644)
}

// compare returns an error if a package has more identifiers than allowed. If update is false, it
// also returns an error if a package has fewer.
func compare(allowed, found map[string]int, update bool) error {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] > allowed[name] {
			return fmt.Errorf("%s exports %d identifiers, at most %d are allowed: move what users do not need below internal",
				name, found[name], allowed[name])
		}
	}
	if !update && !maps.Equal(allowed, found) {
		return fmt.Errorf("packages export less than docs/stability.md says: run go run ./internal/exported -update")
	}
	return nil
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (\\d+) \\|$")

func parse(text string) map[string]int {
	out := map[string]int{}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		out[m[1]], _ = strconv.Atoi(m[2])
	}
	return out
}

func table(found map[string]int) string {
	var b strings.Builder
	b.WriteString("| Package | Exported identifiers |\n|---|---|\n")
	library, client := 0, 0
	for _, name := range slices.Sorted(maps.Keys(found)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", name, found[name])
		if slices.Contains(clientPackages, name) {
			client += found[name]
		} else {
			library += found[name]
		}
	}
	fmt.Fprintf(&b, "| all of the library | %d |\n| all of the client of the HTTP API | %d |\n", library, client)
	return b.String()
}
