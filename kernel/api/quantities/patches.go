package quantities

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Patches refuses strategic merge patches and server-side applies with a quantity
// that is too large: their values get into an object without a decoder. What other
// patches make of an object is decoded.
type Patches struct {
	// TypeOf is the Go type of the object that is patched; nil: it has no quantities.
	TypeOf func(*request.RequestInfo) reflect.Type
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
	switch types.PatchType(mediaType) {
	case types.JSONPatchType, types.MergePatchType:
		return nil // decoded whole
	}
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest {
		return nil
	}
	t := p.TypeOf(info)
	if t == nil || shapeOf(t) == nil {
		return nil
	}
	body, err := p.Body(req)
	if err != nil {
		return nil //nolint:nilerr // the handler meets it too
	}
	if types.PatchType(mediaType) == types.ApplyCBORPatchType {
		if body, ok = fromCBOR(body); !ok {
			return nil // the handler says it, or serves no such patch
		}
	}
	isYAML := types.PatchType(mediaType) == types.ApplyYAMLPatchType
	if err := checkText(body, t, isYAML); err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the patch of %s %q: %v", info.Resource, info.Name, err))
	}
	return nil
}
