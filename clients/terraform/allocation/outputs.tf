output "name" {
  description = "Name of the allocation, known when its login works: `gpuaas ssh NAME`."
  value       = terraform_data.allocation.output.name
}
