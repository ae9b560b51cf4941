// Package settings reads the configurations of controllers: JSON, strictly. A key that
// a controller does not have is refused, and so are a value out of its range and what
// stands behind the object.
//
// The keys have kube-controller-manager's names, written as in its documentation but for
// the first letter. configs/docs/plugins.md lists them, and manifest.yaml has their schemas; a
// test of the bundle compares all three.
//
// It imports sdk/controller and no controller.
package settings
