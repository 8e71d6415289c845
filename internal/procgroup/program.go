package procgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// FindProgram resolves a program as a shell does: a relative path with a separator is relative to
// dir, and a bare name is looked up in PATH. The error for a bare name that is not found contains
// PATH.
func FindProgram(program, dir string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) && dir != "" {
		program = filepath.Join(dir, program)
	}
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return filepath.Abs(path)
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("there is no program %q in PATH (%s); install it, or give its path", program, os.Getenv("PATH"))
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("the program %q cannot be executed; is it a program, and executable?", program)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no program %q", program)
	default:
		return "", fmt.Errorf("looking for the program: %w", err)
	}
}
