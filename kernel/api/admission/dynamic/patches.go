package dynamic

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"pintle.dev/pintle/kernel/api/patchbounds"
)

// boundPatches refuses answers of webhooks whose patch is beyond the bounds of those of
// clients: the machinery applies it to the object in no bounded time. What is no answer
// with a patch reaches the machinery as it is.
func boundPatches(next http.RoundTripper) http.RoundTripper { return patchBounds{next} }

type patchBounds struct{ next http.RoundTripper }

// WrappedRoundTripper lets the transport below be found.
func (p patchBounds) WrappedRoundTripper() http.RoundTripper { return p.next }

// RoundTrip implements http.RoundTripper. The machinery takes each code from 200 to 206 for
// an answer, and also 101.
func (p patchBounds) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := p.next.RoundTrip(req)
	if err != nil || res.StatusCode >= http.StatusMultipleChoices {
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

// reviewDecoder reads answers as the machinery's clients do: JSON, YAML and protobuf, whatever
// the answer's header says.
var reviewDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionv1.AddToScheme(scheme))
	utilruntime.Must(admissionv1beta1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// checkPatch looks at the patch of an answer. An answer that cannot be decoded passes: the
// machinery refuses it. One that does not name its version has the same fields in both.
func checkPatch(answer []byte) error {
	review, _, err := reviewDecoder.Decode(answer, nil, &admissionv1.AdmissionReview{})
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	var patch []byte
	switch review := review.(type) {
	case *admissionv1.AdmissionReview:
		if review.Response != nil {
			patch = review.Response.Patch
		}
	case *admissionv1beta1.AdmissionReview:
		if review.Response != nil {
			patch = review.Response.Patch
		}
	}
	if len(patch) == 0 {
		return nil
	}
	return patchbounds.Check(types.JSONPatchType, patch)
}
