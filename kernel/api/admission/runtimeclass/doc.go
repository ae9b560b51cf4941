// Package runtimeclass is the admission plugin RuntimeClass: a pod gets the
// overhead of its runtime class, its node selector becomes the intersection of
// both and its tolerations the union (001, runtime class scheduling).
package runtimeclass
