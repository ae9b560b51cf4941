// Package references says who names a bundle of the catalog: a Plugin object of a running kernel or
// its configuration. What is named stays when the catalog is cleaned.
//
// It reads Plugin objects by kernel/plugin/operate. It must not import kernel/api or the store.
package references
