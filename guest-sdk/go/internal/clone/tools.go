package clone

import (
	"bytes"
	"errors"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// FindTool returns the index of the tool with the given name in tools, or -1.
func FindTool(tools []abi.Tool, name string) int {
	return slices.IndexFunc(tools, func(t abi.Tool) bool { return t.Name == name })
}

func sameTool(a, b *abi.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && a.Owner == b.Owner && a.Idempotent == b.Idempotent &&
		a.ReadOnly == b.ReadOnly && a.Destructive == b.Destructive && bytes.Equal(a.Parameters, b.Parameters)
}

// ToolsPatch returns the patch that turns the list shown into the list now: removals, and additions
// at the end. If tools were changed or moved, it is the whole new list. ToolsPatch fails if a tool
// of the new list is invalid, or if two of them have the same name.
func ToolsPatch(shown, now []abi.Tool) (abi.ToolsPatch, error) {
	for i := range now {
		check := contract.CheckTool
		if FindTool(shown, now[i].Name) >= 0 {
			check = contract.CheckParameters
		}
		if err := check(&now[i]); err != nil {
			return abi.ToolsPatch{}, err
		}
		if j := FindTool(now, now[i].Name); j != i {
			return abi.ToolsPatch{}, errors.New("two tools are named " + strconv.Quote(now[i].Name))
		}
	}
	var out abi.ToolsPatch
	inUse := 0
	for i := range shown {
		if inUse < len(now) && sameTool(&now[inUse], &shown[i]) {
			inUse++
		} else {
			out.Remove = append(out.Remove, shown[i].Name)
		}
	}
	for _, t := range now[inUse:] {
		if FindTool(shown, t.Name) >= 0 {
			return abi.ToolsPatch{Whole: true, Replace: now}, nil
		}
		out.Add = append(out.Add, t)
	}
	return out, nil
}
