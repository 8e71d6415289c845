package clusterchaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// skewVariable names the environment variable with the path of a file. The file has the number of
// seconds by which the clock of a program that [buildSkewed] built is fast.
const skewVariable = "AGENT_RUNNER_SKEW"

// buildSkewed builds the command in the module at dir, with a clock that tests can set. It replaces
// the standard library's time.Now, whose monotonic part stays correct, as when an administrator or
// NTP sets a machine's clock.
func buildSkewed(dir, program string) error {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	b, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	const (
		imports = "import (\n"
		read    = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n\t\treturn Time{"
	)
	text := string(b)
	if strings.Count(text, imports) != 1 || strings.Count(text, read) != 1 {
		return fmt.Errorf("%s: time.Now is not as this test knows it", source)
	}
	text = strings.Replace(text, imports, imports+"\t\"sync/atomic\"\n\t\"syscall\"\n", 1)
	text = strings.Replace(
		text,
		read,
		strings.Replace(read, "\tif mono", "\tsec += skewSeconds.Load()\n\tif mono", 1),
		1,
	) + skew
	work, err := os.MkdirTemp("", "skewed")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	replaced := filepath.Join(work, "time.go")
	if err := os.WriteFile(replaced, []byte(text), 0o600); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: replaced}})
	if err != nil {
		return err
	}
	list := filepath.Join(work, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-overlay", list, "-o", program, "./cmd/agent-runner")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build in %s: %w\n%s", dir, err, out)
	}
	return nil
}

// skew is added to package time. A goroutine reads the file, because the runtime calls time.Now where
// system calls are impossible.
const skew = `
var skewSeconds atomic.Int64

func init() {
	if name, ok := syscall.Getenv("` + skewVariable + `"); ok {
		go func() {
			for {
				skewSeconds.Store(readSkew(name))
				Sleep(50 * Millisecond)
			}
		}()
	}
}

func readSkew(name string) int64 {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	var b [8]byte
	n, _ := syscall.Read(fd, b[:])
	sum, sign := int64(0), int64(1)
	for _, c := range b[:max(n, 0)] {
		if c == '-' {
			sign = -1
		} else if c >= '0' && c <= '9' {
			sum = sum*10 + int64(c-'0')
		}
	}
	return sign * sum
}
`

// checkOut writes the project at a commit to dir. It fails if this is no clone with the commit.
func checkOut(commit, dir string) error {
	archive := exec.Command("git", "-C", "../..", "archive", commit)
	unpack := exec.Command("tar", "-x", "-C", dir)
	var err error
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	if err := unpack.Start(); err != nil {
		return err
	}
	failed := archive.Run()
	if err := unpack.Wait(); failed == nil {
		failed = err
	}
	return failed
}
