package demand

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Want is a plugin that starts on demand, and the objects that ask for it.
type Want struct {
	Plugin string
	Rules  []Rule
}

// Rule is met by an object of a resource all of whose fields have one of their values.
type Rule struct {
	Resource schema.GroupVersionResource
	Fields   []Field
}

// Field is a member of an object.
type Field struct {
	Member []string // the names on the way to it, such as spec and ingressClassName
	// Values has an empty one for a member that is not there.
	Values []string
}

// meets reports whether an object has what the rule says.
func (r *Rule) meets(object map[string]any) bool {
	for _, f := range r.Fields {
		if !slices.Contains(f.Values, valueOf(object, f.Member)) {
			return false
		}
	}
	return true
}

// valueOf is a member as text; it is empty where there is none, or where it is not one value.
func valueOf(object map[string]any, names []string) string {
	if len(names) == 0 {
		return ""
	}
	var now any = object
	for _, name := range names {
		members, ok := now.(map[string]any)
		if !ok {
			return ""
		}
		now = members[name]
	}
	switch now := now.(type) {
	case string:
		return now
	case bool, int64, float64:
		return fmt.Sprint(now)
	}
	return ""
}
