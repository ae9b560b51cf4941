package patchbounds

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// MaxNesting bounds the sum of the depths of all bytes of a JSON patch or merge
	// patch: 3 MiB at a depth of 42, or 16 KiB at one of 8,000.
	MaxNesting = 128 << 20
	// MaxPairs bounds the sum of the squares of the lengths of all lists of a strategic
	// merge patch: one list of 5,000 items, or 25 lists of 1,000.
	MaxPairs = 25_000_000
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
	nesting, pairs := measure(body)
	switch {
	case kind == types.StrategicMergePatchType && pairs > MaxPairs:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the strategic merge patch has too long lists: the squares of their lengths may sum up to %d, these have %d", MaxPairs, pairs))
	case kind != types.StrategicMergePatchType && nesting > MaxNesting:
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the patch of %d bytes nests too deep: length times depth may be %d, this one has %d", len(body), MaxNesting, nesting))
	}
	return nil
}

// maxDepth is that of the decoders, which refuse what is deeper at once.
const maxDepth = 10_000

// measure gives the sum of the depths of all bytes, and that of the squares of the
// lengths of lists. A text that is deeper than decoders go has neither.
func measure(text []byte) (nesting, pairs int64) {
	const object = -1
	var open []int64 // commas of each list that is open; object for an object
	quoted, escaped := false, false
	for _, c := range text {
		nesting += int64(len(open))
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
				pairs += (n + 1) * (n + 1)
			}
			open = open[:last]
		}
		if len(open) > maxDepth {
			return 0, 0
		}
	}
	return nesting, pairs
}
