package modules

import "os"

// newSpool opens a temporary file for an upload. If the system allows it, the file has no name, so
// that it disappears if the process is killed. The caller calls remove when the upload has ended.
func newSpool() (file *os.File, remove func(), err error) {
	if file, err = os.CreateTemp("", "agent-runner-upload-*"); err != nil {
		return nil, nil, err
	}
	if os.Remove(file.Name()) == nil {
		return file, func() { _ = file.Close() }, nil
	}
	return file, func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}, nil
}
