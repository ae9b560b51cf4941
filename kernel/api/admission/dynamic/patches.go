package dynamic

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"

	"pintle.dev/pintle/kernel/api/patchbounds"
)

// boundPatches refuses answers of webhooks whose patch is beyond the bounds of those of
// clients: the machinery applies it to the object in no bounded time. What is no answer
// with a patch reaches the machinery as it is.
func boundPatches(next http.RoundTripper) http.RoundTripper { return patchBounds{next} }

type patchBounds struct{ next http.RoundTripper }

// WrappedRoundTripper lets the transport below be found.
func (p patchBounds) WrappedRoundTripper() http.RoundTripper { return p.next }

// RoundTrip implements http.RoundTripper.
func (p patchBounds) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := p.next.RoundTrip(req)
	if err != nil || res.StatusCode != http.StatusOK {
		return res, err
	}
	body, err := io.ReadAll(res.Body) // which is bounded below
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	if err := checkPatch(body); err != nil {
		return nil, fmt.Errorf("the answer of the webhook: %w", err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res, nil
}

// checkPatch looks at the patch of an answer as the machinery does: names in their case,
// the last of two of a name.
func checkPatch(answer []byte) error {
	var review struct {
		Response struct {
			Patch []byte `json:"patch"`
		} `json:"response"`
	}
	if json.UnmarshalCaseSensitivePreserveInts(answer, &review) != nil || len(review.Response.Patch) == 0 {
		return nil // the machinery refuses it, or there is nothing to apply
	}
	return patchbounds.Check(types.JSONPatchType, review.Response.Patch)
}
