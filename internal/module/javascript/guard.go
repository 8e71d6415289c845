package javascript

import "fmt"

// Limits on a source file that is bundled in this process and not in a child process. The bundler
// is recursive, takes exponential time for some nestings, and cannot be interrupted. Ordinary
// sources have at most about 20 levels, and a few arrow functions in an expression.
const (
	guardBytes  = 1 << 20
	guardDepth  = 200
	guardArrows = 100
	guardRun    = 1_000
)

// guard returns an error for a source that could make the bundler run for a long time or crash the
// process. It counts characters, including those in strings and comments, so that no source can
// avoid the check. Some harmless sources fail the check, such as minified packages. Hosts that
// accept untrusted scripts should bundle in a child process instead.
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
