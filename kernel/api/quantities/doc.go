// Package quantities refuses quantities that cannot be computed with in a bounded
// time: those with a very large exponent or very many digits.
// k8s.io/apimachinery takes them, and parsing or printing one may take minutes.
//
// It owns the check of what clients send, in JSON, YAML and protobuf. A scan of the
// text finds most requests free of such quantities. The others are walked along
// the Go type of their object, without parsing any quantity: the same text is
// accepted where it is none, as in an annotation.
//
// The package must not import kernel/api, the store or a plugin.
//
// Data passes: a request's body or a patched object → Decoder → the machinery's
// decoder; the body of a patch that is no whole object → Patches → the handler;
// JSON within an annotation → CheckJSON → who decodes it.
//
// Caveats: custom resources have no quantities, only strings. What reads such a
// string as a quantity, as CEL's quantity() does, must bound it by itself. Patches
// of webhooks and of mutating policies are not checked: administrators set these up.
package quantities
