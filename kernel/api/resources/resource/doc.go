// Package resource says what the objects of resource.k8s.io/v1 are: DeviceClass,
// ResourceClaim, ResourceClaimTemplate and ResourceSlice, by which drivers tell of
// devices and users ask for them (dynamic resource allocation).
//
// Kinds gives the served kinds, AddToScheme their defaults. Rules, field paths and the
// words of errors are upstream's (Kubernetes 1.36). Expressions in CEL are compiled
// by k8s.io/dynamic-resource-allocation, whose scheduler and drivers evaluate them.
// Fields that Kubernetes has behind a gate that is off, or only since 1.37, are
// dropped as it drops them.
//
// Two rules ask somebody else (Access): whether a namespace has the label that allows
// access for administrators, and whether who writes a claim's status may: allocation
// and reservation need a right of their own, each driver's status another.
//
// The package is stateless and allocates nothing. It must not import kernel/api, the
// store, the bus or a plugin.
package resource
