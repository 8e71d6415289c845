// Command phrases reports phrases in comments and documents that are not plain English.
// CONTRIBUTING.md says what to write instead.
//
//	go run ./internal/phrases [-allow FILE] [-update]
//
// FILE lists the number of such lines that each file may still have. A file may have
// fewer, but then its number must be lowered: the list only shrinks. -update lowers it.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	allow := flag.String("allow", "internal/phrases/allowed.txt", "the `FILE` of allowed numbers")
	update := flag.Bool("update", false, "lower the numbers of the file")
	flag.Parse()
	if err := run(*allow, *update); err != nil {
		fmt.Fprintln(os.Stderr, "phrases:", err)
		os.Exit(1)
	}
}

func run(allow string, update bool) error {
	allowed, err := readAllowed(allow)
	if err != nil {
		return err
	}
	found, err := search()
	if err != nil {
		return err
	}
	if update {
		return writeAllowed(allow, allowed, found)
	}
	return compare(allowed, found)
}

// compare prints the files whose lines do not match the allowed numbers, and returns an error if
// there are any.
func compare(allowed map[string]int, found map[string][]string) error {
	bad := 0
	for _, file := range slices.Sorted(maps.Keys(found)) {
		if len(found[file]) > allowed[file] {
			bad++
			fmt.Printf(
				"%s: %d lines, at most %d allowed:\n  %s\n",
				file,
				len(found[file]),
				allowed[file],
				strings.Join(found[file], "\n  "),
			)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(allowed)) {
		if n := len(found[file]); n < allowed[file] {
			bad++
			fmt.Printf(
				"%s: %d lines, %d allowed: lower the number with: go run ./internal/phrases -update\n",
				file,
				n,
				allowed[file],
			)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d files do not match; rewrite the lines as CONTRIBUTING.md describes", bad)
	}
	return nil
}

// search returns the offending lines of each file that git tracks.
func search() (map[string][]string, error) {
	out, err := exec.Command("git", "ls-files", "*.go", "*.md", "*.ts", "*.rs", "*.h").Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	found := map[string][]string{}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if strings.HasPrefix(file, "testdata/") || strings.HasPrefix(file, "internal/phrases/") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		line := 0
		for text := range strings.Lines(string(src)) {
			line++
			if isProse(file, text) && matches(text) {
				found[file] = append(found[file], fmt.Sprintf("%d: %s", line, strings.TrimSpace(text)))
			}
		}
	}
	return found, nil
}

var comment = regexp.MustCompile(`^\s*(//|\*)`)

// isProse reports whether the line is a comment or part of a document.
func isProse(file, line string) bool {
	return filepath.Ext(file) == ".md" || comment.MatchString(line)
}

// phrases match the wording that this command reports: sentences without a plain subject, idioms where
// the field has a standard term, and doc comments that do not say what the identifier does.
var phrases = []*regexp.Regexp{
	regexp.MustCompile(
		`(?i)(^|[.:;,] |// )(who|whose|of which|of what) (is|are|was|has|have|had|asks?|waits?|wants?|comes?|goes|does|did|reads?|writes?|would|may|can)\b`,
	),
	regexp.MustCompile(
		`(?i)(^|\. |// )what (is|are|was|has|had|asks?|waits?|wants?|comes?|goes|does|did|reads?|writes?|would|may|can)\b`,
	),
	regexp.MustCompile(
		`(?i)\b(nobody|goes on|went on|go on with|gone on with|comes? to (an|its|their) end|(is|are|was) told|so many|so long|lately|says? no|as it stands|by turns|under way)\b`,
	),
	regexp.MustCompile(`(?i)\b(stands? (in|for|behind|there)|beside (it|them|the|a)|side by side)\b`),
	regexp.MustCompile(`// [A-Za-z]+ (is|are) (what|who|how|where|those|that|whether|when)\b`),
}

func matches(line string) bool {
	return slices.ContainsFunc(phrases, func(p *regexp.Regexp) bool { return p.MatchString(line) })
}

// readAllowed reads lines of a number and a file.
func readAllowed(path string) (map[string]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(b)) {
		number, file, ok := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: %q is not a number and a file", path, line)
		}
		allowed[file] = n
	}
	return allowed, nil
}

// writeAllowed lowers the numbers to what was found. It never raises one.
func writeAllowed(path string, allowed map[string]int, found map[string][]string) error {
	var b strings.Builder
	for _, file := range slices.Sorted(maps.Keys(allowed)) {
		if n := min(allowed[file], len(found[file])); n > 0 {
			fmt.Fprintf(&b, "%d %s\n", n, file)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
