package abisource

import (
	"fmt"
	"strings"
)

// Replace returns file, the text of a file, with text between two marker lines. The first marker
// line contains begin, and the second is the next line that contains end. Replace keeps both lines,
// and returns an error if one is missing.
func Replace(file, begin, end, text string) (string, error) {
	from := strings.Index(file, begin)
	if from < 0 {
		return "", fmt.Errorf("the mark %q is missing", begin)
	}
	from += strings.IndexByte(file[from:], '\n') + 1
	to := strings.Index(file[from:], end)
	if to < 0 {
		return "", fmt.Errorf("the mark %q is missing", end)
	}
	to = strings.LastIndexByte(file[:from+to], '\n') + 1
	return file[:from] + text + file[to:], nil
}
