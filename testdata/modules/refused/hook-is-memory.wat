(module
  (memory (export "memory") 1)
  (export "before_agent" (memory 0)))
