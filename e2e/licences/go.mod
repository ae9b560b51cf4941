// The check of licences that `make check` runs, in a module of its own so that its library
// stays out of the product's module.
module pintle.dev/pintle/e2e/licences

go 1.26.0

require github.com/google/licensecheck v0.3.1
