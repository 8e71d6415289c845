package javascript

import (
	"encoding/json"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Limits on what findWorkspace reads.
const (
	maxManifest = 1 << 20 // bytes of a package.json
	maxMembers  = 1_000
)

// A Workspace is the npm workspace that contains a script's project. npm installs the packages of all
// its members in the workspace's own node_modules.
type Workspace struct {
	Root string `json:"root"` // the folder whose package.json has workspaces
	// Members are the folders of the packages, without symbolic links. They are below Root.
	Members []string `json:"members"`
}

// findWorkspace returns the workspace of the project in root, or nil. That is the nearest folder above
// it whose package.json lists root in its workspaces, as npm requires.
func findWorkspace(root string) *Workspace {
	for dir := filepath.Dir(root); ; dir = filepath.Dir(dir) {
		w := &Workspace{Root: dir, Members: members(dir)}
		if slices.Contains(w.Members, root) {
			return w
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// members returns the folders of the packages that a package.json in dir lists as workspaces. It
// ignores what leads out of dir.
func members(dir string) (out []string) {
	text, err := readRegular(filepath.Join(dir, "package.json"), maxManifest)
	if err != nil {
		return nil
	}
	for _, pattern := range patterns(text) {
		found, _ := fs.Glob(os.DirFS(dir), path.Clean(pattern)) // finds nothing above dir
		for _, name := range found {
			member, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name)))
			if err == nil && member != dir && within(dir, member) && len(out) < maxMembers {
				out = append(out, member)
			}
		}
	}
	return out
}

// patterns returns the workspaces of a package.json: a list, or, as Yarn writes it, an object with the
// list.
func patterns(manifest []byte) []string {
	var file struct {
		Workspaces json.RawMessage `json:"workspaces"`
	}
	if json.Unmarshal(manifest, &file) != nil {
		return nil
	}
	var list []string
	if json.Unmarshal(file.Workspaces, &list) == nil {
		return list
	}
	var object struct {
		Packages []string `json:"packages"`
	}
	_ = json.Unmarshal(file.Workspaces, &object)
	return object.Packages
}

// within reports whether path is dir, or below it.
func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Top returns the folder that contains everything that the script may import: the workspace's root, or
// the project's if there is no workspace.
func (s Source) Top() string {
	if s.Workspace != nil {
		return s.Workspace.Root
	}
	return s.Root
}

// contains reports whether the script may import the file at path, which has no symbolic links: it is
// in the project or, if the project belongs to a workspace, in one of the workspace's packages or in
// its node_modules.
func (s Source) contains(path string) bool {
	if within(s.Root, path) {
		return true
	}
	w := s.Workspace
	return w != nil && (within(filepath.Join(w.Root, "node_modules"), path) ||
		slices.ContainsFunc(w.Members, func(member string) bool { return within(member, path) }))
}
