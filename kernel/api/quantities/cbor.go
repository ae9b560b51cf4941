package quantities

import (
	"encoding/json"

	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// fromCBOR gives an object in CBOR as JSON. Who cannot be read is left to the decoder,
// which is of the same library.
func fromCBOR(data []byte) ([]byte, bool) {
	var v any
	if err := cbor.Unmarshal(data, &v); err != nil {
		return nil, false
	}
	text, err := json.Marshal(v)
	return text, err == nil
}
