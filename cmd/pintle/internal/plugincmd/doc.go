// Package plugincmd is the command pintle plugin with all below it: it parses arguments, calls
// the packages that do the work (kernel/catalog, kernel/plugin/operate, sdk/conformance, …) and
// prints what they say.
package plugincmd
