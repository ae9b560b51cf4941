// +k8s:deepcopy-gen=package
// +k8s:openapi-gen=true
// +k8s:openapi-model-package=dev.pintle.kernel.v1alpha1
// +groupName=kernel.pintle.dev

// Package v1alpha1 holds the API types of the group kernel.pintle.dev: today
// the cluster-scoped Plugin.
//
// It owns the wire shape, its deep copies and its registration; the kernel's
// API server adds defaults, validation and printing. The kernel writes one
// Plugin an enabled plugin name: configuration seeds the spec, the plugin host
// reports the status. Third parties may read and watch the type with any
// client; it imports k8s.io/apimachinery and k8s.io/api only.
//
// Objects are stored and served as JSON (and CBOR); the types have no protobuf
// form, so clients ask for application/json. The comments of fields are what
// `kubectl explain plugins` shows.
//
// The zz_generated files come from go generate in this directory.
package v1alpha1

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.37.2 --output-file zz_generated.deepcopy.go .
