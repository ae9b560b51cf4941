// Package nodepods finds the cached pods that are bound to a node.
//
// It owns one index of the shared informer of pods, which all controllers of the
// process use. A controller adds it in New by Index and asks by On. What On returns
// is of the cache and must not be changed.
//
// It imports client-go only, and no controller.
package nodepods
