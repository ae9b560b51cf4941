package answers

import (
	"bytes"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// Plain gives the format of an answer to a request. It is false where the client accepts none
// that is served, or wants the object converted or formatted.
func Plain(req *http.Request, serializer runtime.NegotiatedSerializer) (runtime.SerializerInfo, bool) {
	options, accepted, err := negotiation.NegotiateOutputMediaType(req, serializer, anyTransform{})
	if err != nil || options.Convert != nil || accepted.Serializer == accepted.PrettySerializer {
		return runtime.SerializerInfo{}, false
	}
	return accepted, true
}

// anyTransform lets each wish count, so that a request with one is left to the handler that
// knows what is possible.
type anyTransform struct{}

func (anyTransform) AllowsMediaTypeTransform(string, string, *schema.GroupVersionKind) bool {
	return true
}
func (anyTransform) AllowsServerVersion(string) bool { return true }
func (anyTransform) AllowsStreamSchema(string) bool  { return true }

// Writer writes objects of one version.
type Writer struct {
	serializer runtime.NegotiatedSerializer
	version    schema.GroupVersion
	// encoders are those of the serializers that are negotiated, which the machinery makes
	// anew for each request.
	encoders map[runtime.Serializer]runtime.Encoder
}

// NewWriter makes a writer of objects of a version.
func NewWriter(serializer runtime.NegotiatedSerializer, version schema.GroupVersion) *Writer {
	w := &Writer{serializer: serializer, version: version, encoders: map[runtime.Serializer]runtime.Encoder{}}
	for _, info := range serializer.SupportedMediaTypes() {
		w.encoders[info.Serializer] = serializer.EncoderForVersion(info.Serializer, version)
	}
	return w
}

// buffers are for answers.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// largestPlain is the largest answer that is not compressed for those who ask.
const largestPlain = 128 << 10

// Write answers with an object in a format that Plain gave. encoded is the object in that
// format, nil where that is not known.
func (a *Writer) Write(w http.ResponseWriter, req *http.Request, code int, accepted runtime.SerializerInfo, encoded []byte, obj runtime.Object) {
	if encoded == nil {
		b := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(b)
		b.Reset()
		if encoder := a.encoders[accepted.Serializer]; encoder != nil && encoder.Encode(obj, b) == nil {
			encoded = b.Bytes()
		}
	}
	if len(encoded) == 0 || len(encoded) > largestPlain {
		responsewriters.WriteObjectNegotiated(a.serializer, negotiation.DefaultEndpointRestrictions, a.version, w, req, code, obj, false)
		return
	}
	w.Header().Set("Content-Type", accepted.MediaType)
	w.WriteHeader(code)
	_, _ = w.Write(encoded) // who does not read the answer asks again
}

// Fail answers with an error.
func (a *Writer) Fail(w http.ResponseWriter, req *http.Request, err error) {
	responsewriters.ErrorNegotiated(err, a.serializer, a.version, w, req)
}
