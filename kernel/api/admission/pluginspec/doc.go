// Package pluginspec is the admission plugin PluginSpec: a Plugin object whose
// spec the plugin host could not put in force is refused when it is written,
// with the field and what is there instead: no such version is installed, no
// such scheduler profile, a configuration that its plugin's schema forbids.
//
// What only a start can tell (a plugin that refuses its configuration, a version
// that breaks) is told by the object's condition Accepted.
package pluginspec
