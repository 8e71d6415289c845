package abisource

import (
	"fmt"
	"strings"
)

// Replace returns the text of a file with text in place of the lines between the line that contains
// begin and the first line after it that contains end. It returns an error if one of those lines is
// missing.
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
