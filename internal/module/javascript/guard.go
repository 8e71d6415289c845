package javascript

import "fmt"

// What a source file may hold where it is bundled in a process that must live
// on. The bundler works recursively, and takes exponential time for some
// nestings; there is no way to stop it from outside. Ordinary sources have
// nothing near these: 20 levels, a few arrows in one expression.
const (
	guardBytes  = 1 << 20
	guardDepth  = 200
	guardArrows = 100
	guardRun    = 1_000
)

// guard refuses a source that would take a bundler in this process long, or end
// the process. It looks at characters alone, strings and comments included, so
// that nothing can hide from it; and it is coarse, so that packages that were
// made small may not pass. Who takes scripts from strangers bundles in a child.
func guard(source []byte) error {
	if len(source) > guardBytes {
		return fmt.Errorf("a source of %d bytes; at most %d can be bundled in this process", len(source), guardBytes)
	}
	depth, arrows, run := 0, 0, 0
	for i, c := range source {
		switch c {
		case '(', '[', '{', '<', '?':
			depth++
		case ')', ']', '}', '>', ':':
			depth = max(0, depth-1)
		case ';':
			arrows = 0
		}
		switch c {
		case '!', '~', '+', '-', '*', '=', '/', '&', '|', '^', '%', '.', ',', '`', '$':
			run++
		case '\n', ';':
			run = 0
		}
		if c == '=' && i+1 < len(source) && source[i+1] == '>' {
			arrows++
		}
		switch {
		case depth > guardDepth:
			return fmt.Errorf("brackets nest deeper than %d, which is not bundled in this process", guardDepth)
		case arrows > guardArrows:
			return fmt.Errorf("more than %d arrow functions in one statement, which is not bundled in this process", guardArrows)
		case run > guardRun:
			return fmt.Errorf("more than %d operators on one line, which is not bundled in this process", guardRun)
		}
	}
	return nil
}
