package patchbounds

import (
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// MaxNesting bounds the sum of the depths of all bytes of a JSON patch or merge
	// patch: 3 MiB at a depth of 42, or 16 KiB at one of 8,000.
	MaxNesting = 128 << 20
	// MaxLevels bounds the levels of a JSON patch or merge patch, and those that the
	// pointers of a JSON patch reach in the stored object: its text is read once for each.
	MaxLevels = 256
	// MaxPairs bounds the sum of the squares of the lengths of all lists of a strategic
	// merge patch: one list of 5,000 items, or 25 lists of 1,000.
	MaxPairs = 25_000_000
	// MaxOperations is how many a JSON patch may have: the handler's own bound for clients.
	MaxOperations = 10_000
	// tooMany is what the handler says, in Kubernetes' words.
	tooMany = "The allowed maximum operations in a JSON patch is %d, got %d"
)

// Patches refuses patches that are beyond the bounds.
type Patches struct {
	// Body reads a request's body, and leaves the request with all of it.
	Body   func(*http.Request) ([]byte, error)
	Refuse func(w http.ResponseWriter, req *http.Request, err error)
}

// Before stands before the handler of patches.
func (p Patches) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPatch {
			if err := p.check(req); err != nil {
				p.Refuse(w, req, err)
				return
			}
		}
		next.ServeHTTP(w, req)
	})
}

func (p Patches) check(req *http.Request) error {
	// As the handler reads it, which takes what mime.ParseMediaType does not.
	mediaType, _, _ := strings.Cut(req.Header.Get("Content-Type"), ";")
	kind := types.PatchType(mediaType)
	switch kind {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
	default:
		return nil
	}
	body, err := p.Body(req)
	if err != nil {
		return nil //nolint:nilerr // the handler meets it too
	}
	if err := Check(kind, body); err != nil {
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	}
	return nil
}

// Check says what of a patch is beyond the bounds. Of other kinds than a JSON patch, a merge
// patch and a strategic merge patch nothing is.
func Check(kind types.PatchType, patch []byte) error {
	m := measure(patch)
	switch kind {
	case types.StrategicMergePatchType:
		if m.pairs > MaxPairs {
			return fmt.Errorf("the strategic merge patch has too long lists: the squares of their lengths may sum up to %d, these have %d", MaxPairs, m.pairs)
		}
		return nil
	case types.JSONPatchType, types.MergePatchType:
	default:
		return nil
	}
	switch {
	case m.levels > MaxLevels:
		return fmt.Errorf("the patch nests too deep: it may have %d levels, this one has %d", MaxLevels, m.levels)
	case m.nesting > MaxNesting:
		return fmt.Errorf("the patch of %d bytes nests too deep: length times depth may be %d, this one has %d", len(patch), MaxNesting, m.nesting)
	case kind == types.JSONPatchType:
		n, operations := reach(patch)
		if operations > MaxOperations {
			return fmt.Errorf(tooMany, MaxOperations, operations)
		}
		if n > MaxLevels {
			return fmt.Errorf("the JSON patch points too deep: the levels of its longest pointer, and those by which it moves values up and down, may sum up to %d, these have %d", MaxLevels, n)
		}
	}
	return nil
}

// reach gives how many levels of the object a JSON patch can get to: those of its
// longest pointer, and those by which it moves or copies values. Up, a later pointer goes
// on from there; down, what was read is written again at more levels. It also counts the
// operations. A text that is no JSON patch has none of both.
func reach(text []byte) (levels, operations int) {
	patch, err := jsonpatch.DecodePatch(text) // as the handler reads it
	if err != nil {
		return 0, 0
	}
	longest, moved := 0, 0
	for _, op := range patch {
		path, err := op.Path()
		if err != nil {
			path = "" // the handler refuses it, but reads from before
		}
		to := strings.Count(path, "/")
		longest = max(longest, to)
		switch op.Kind() {
		case "move", "copy":
			from, err := op.From()
			if err != nil {
				continue // the handler refuses it
			}
			n := strings.Count(from, "/")
			longest = max(longest, n)
			moved += max(n-to, to-n)
		}
	}
	return longest + moved, len(patch)
}

// maxDepth is that of the decoders, which refuse what is deeper at once.
const maxDepth = 10_000

// measures are what the bounds are of: the depth of the deepest byte, the sum of the
// depths of all bytes, and that of the squares of the lengths of lists.
type measures struct{ levels, nesting, pairs int64 }

// measure gives the measures of a text. One that is deeper than decoders go has none.
func measure(text []byte) (m measures) {
	const object = -1
	var open []int64 // commas of each list that is open; object for an object
	quoted, escaped := false, false
	for _, c := range text {
		m.levels = max(m.levels, int64(len(open)))
		m.nesting += int64(len(open))
		switch last := len(open) - 1; {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			open = append(open, object)
		case c == '[':
			open = append(open, 0)
		case last < 0:
		case c == ',' && open[last] != object:
			open[last]++
		case c == '}' || c == ']':
			if n := open[last]; n > 0 {
				m.pairs += (n + 1) * (n + 1)
			}
			open = open[:last]
		}
		if len(open) > maxDepth {
			return measures{}
		}
	}
	return m
}
